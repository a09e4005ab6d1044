package main

import "strings"

// The fields of Grafana's dashboard JSON that are used.
type (
	grafanaDashboard struct {
		UID           string         `json:"uid"`
		Title         string         `json:"title"`
		Description   string         `json:"description"`
		Tags          []string       `json:"tags"`
		SchemaVersion int            `json:"schemaVersion"`
		Editable      bool           `json:"editable"`
		Refresh       string         `json:"refresh"`
		Timezone      string         `json:"timezone"`
		Time          grafanaTime    `json:"time"`
		Links         []grafanaLink  `json:"links"`
		Templating    grafanaList    `json:"templating"`
		Panels        []grafanaPanel `json:"panels"`
	}
	grafanaTime struct {
		From string `json:"from"`
		To   string `json:"to"`
	}
	grafanaLink struct {
		Title      string   `json:"title"`
		Type       string   `json:"type"`
		Tags       []string `json:"tags"`
		AsDropdown bool     `json:"asDropdown"`
		KeepTime   bool     `json:"keepTime"`
	}
	grafanaList struct {
		List []grafanaVariable `json:"list"`
	}
	grafanaVariable struct {
		Name       string          `json:"name"`
		Label      string          `json:"label"`
		Type       string          `json:"type"`
		Query      string          `json:"query"`
		Datasource *grafanaSource  `json:"datasource,omitempty"`
		Refresh    int             `json:"refresh,omitempty"` // 2: when the time range changes
		Sort       int             `json:"sort,omitempty"`
		Multi      bool            `json:"multi,omitempty"`
		IncludeAll bool            `json:"includeAll,omitempty"`
		AllValue   string          `json:"allValue,omitempty"`
		Current    *grafanaCurrent `json:"current,omitempty"`
	}
	grafanaCurrent struct {
		Text  []string `json:"text"`
		Value []string `json:"value"`
	}
	grafanaSource struct {
		Type string `json:"type"`
		UID  string `json:"uid"`
	}
	grid struct {
		X int `json:"x"`
		Y int `json:"y"`
		W int `json:"w"`
		H int `json:"h"`
	}
	grafanaPanel struct {
		ID          int             `json:"id"`
		Type        string          `json:"type"`
		Title       string          `json:"title"`
		Description string          `json:"description,omitempty"`
		GridPos     grid            `json:"gridPos"`
		Datasource  *grafanaSource  `json:"datasource,omitempty"`
		Targets     []grafanaTarget `json:"targets,omitempty"`
		FieldConfig *grafanaFields  `json:"fieldConfig,omitempty"`
		Options     map[string]any  `json:"options,omitempty"`
	}
	grafanaTarget struct {
		RefID        string        `json:"refId"`
		Datasource   grafanaSource `json:"datasource"`
		Expr         string        `json:"expr"`
		LegendFormat string        `json:"legendFormat"`
		Exemplar     bool          `json:"exemplar,omitempty"`
		Instant      bool          `json:"instant,omitempty"`
		Range        bool          `json:"range,omitempty"`
	}
	grafanaFields struct {
		Defaults  grafanaDefaults `json:"defaults"`
		Overrides []any           `json:"overrides"`
	}
	grafanaDefaults struct {
		Unit       string             `json:"unit"`
		Min        *float64           `json:"min,omitempty"`
		Custom     map[string]any     `json:"custom,omitempty"`
		Thresholds *grafanaThresholds `json:"thresholds,omitempty"`
	}
	grafanaThresholds struct {
		Mode  string        `json:"mode"`
		Steps []grafanaStep `json:"steps"`
	}
	grafanaStep struct {
		Color string   `json:"color"`
		Value *float64 `json:"value"` // nil: from the lowest on
	}
)

var source = grafanaSource{Type: "prometheus", UID: "${datasource}"}

func (v variable) grafana() grafanaVariable {
	return grafanaVariable{
		Name: v.label, Label: v.label, Type: "query", Query: "label_values(" + v.metric + ", " + v.label + ")",
		Datasource: &source, Refresh: 2, Sort: 1, Multi: true, IncludeAll: true, AllValue: ".*",
		Current: &grafanaCurrent{Text: []string{"All"}, Value: []string{"$__all"}},
	}
}

func (p *panel) grafana() grafanaPanel {
	g := grafanaPanel{Type: "timeseries", Title: p.title, Description: p.about, Datasource: &source,
		FieldConfig: &grafanaFields{Overrides: []any{}}}
	for i, q := range p.queries {
		g.Targets = append(g.Targets, grafanaTarget{
			RefID: string(rune('A' + i)), Datasource: source, Expr: q.expr, LegendFormat: q.legend, Range: true,
			Exemplar: strings.Contains(q.expr, "_bucket"), // links to traces of calls
		})
	}
	g.FieldConfig.Defaults.Unit = p.unit
	if p.kind == "stat" {
		p.stat(&g)
		return g
	}
	zero := 0.0
	g.FieldConfig.Defaults.Min = &zero
	g.FieldConfig.Defaults.Custom = map[string]any{"fillOpacity": 10, "showPoints": "never"}
	if p.stacked {
		g.FieldConfig.Defaults.Custom["fillOpacity"] = 30
		g.FieldConfig.Defaults.Custom["stacking"] = map[string]any{"mode": "normal"}
	}
	g.Options = map[string]any{
		"legend":  map[string]any{"displayMode": "list", "placement": "bottom", "showLegend": true},
		"tooltip": map[string]any{"mode": "multi", "sort": "desc"},
	}
	return g
}

func (p *panel) stat(g *grafanaPanel) {
	g.Type = "stat"
	g.Targets[0].Range, g.Targets[0].Instant = false, true
	steps := []grafanaStep{{Color: "blue"}}
	if p.quiet {
		least := 1e-9
		steps = []grafanaStep{{Color: "green"}, {Color: "red", Value: &least}}
	}
	g.FieldConfig.Defaults.Thresholds = &grafanaThresholds{Mode: "absolute", Steps: steps}
	g.Options = map[string]any{
		"colorMode": "value", "graphMode": "none",
		"reduceOptions": map[string]any{"calcs": []string{"lastNotNull"}, "fields": "", "values": false},
	}
}
