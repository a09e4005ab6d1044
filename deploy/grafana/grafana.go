package main

import (
	"cmp"
	"slices"
	"strings"
)

// The fields of Grafana's dashboard JSON that the dashboards use.
type (
	grafanaDashboard struct {
		UID           string             `json:"uid"`
		Title         string             `json:"title"`
		Description   string             `json:"description"`
		Tags          []string           `json:"tags"`
		SchemaVersion int                `json:"schemaVersion"`
		Editable      bool               `json:"editable"`
		Refresh       string             `json:"refresh"`
		Timezone      string             `json:"timezone"`
		Time          grafanaTime        `json:"time"`
		Links         []grafanaLink      `json:"links"`
		Annotations   grafanaAnnotations `json:"annotations"`
		Templating    grafanaList        `json:"templating"`
		Panels        []grafanaPanel     `json:"panels"`
	}
	grafanaTime struct {
		From string `json:"from"`
		To   string `json:"to"`
	}
	grafanaLink struct {
		Title       string   `json:"title"`
		Type        string   `json:"type"`
		Tags        []string `json:"tags"`
		URL         string   `json:"url,omitempty"`
		Icon        string   `json:"icon"`
		Tooltip     string   `json:"tooltip"`
		AsDropdown  bool     `json:"asDropdown"`
		IncludeVars bool     `json:"includeVars"`
		TargetBlank bool     `json:"targetBlank"`
		KeepTime    bool     `json:"keepTime"`
	}
	grafanaAnnotations struct {
		List []grafanaAnnotation `json:"list"`
	}
	// grafanaAnnotation marks the times that a query returns as values, in milliseconds.
	grafanaAnnotation struct {
		Name            string        `json:"name"`
		Enable          bool          `json:"enable"`
		IconColor       string        `json:"iconColor"`
		Datasource      grafanaSource `json:"datasource"`
		Expr            string        `json:"expr"`
		Step            string        `json:"step"`
		TitleFormat     string        `json:"titleFormat"`
		UseValueForTime bool          `json:"useValueForTime"`
	}
	grafanaDataLink struct {
		Title string `json:"title"`
		URL   string `json:"url"`
	}
	grafanaTransformation struct {
		ID      string         `json:"id"`
		Options map[string]any `json:"options"`
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
	grafanaCurrent struct { // a list for a selection, a string for a text box
		Text  any `json:"text"`
		Value any `json:"value"`
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
		ID              int                     `json:"id"`
		Type            string                  `json:"type"`
		Title           string                  `json:"title"`
		Description     string                  `json:"description,omitempty"`
		GridPos         grid                    `json:"gridPos"`
		Datasource      *grafanaSource          `json:"datasource,omitempty"`
		Targets         []grafanaTarget         `json:"targets,omitempty"`
		FieldConfig     *grafanaFields          `json:"fieldConfig,omitempty"`
		Options         map[string]any          `json:"options,omitempty"`
		Transformations []grafanaTransformation `json:"transformations,omitempty"`
		Collapsed       bool                    `json:"collapsed,omitempty"` // of a row
		Panels          []grafanaPanel          `json:"panels,omitempty"`    // of a collapsed row
	}
	grafanaTarget struct {
		RefID        string        `json:"refId"`
		Datasource   grafanaSource `json:"datasource"`
		Expr         string        `json:"expr"`
		LegendFormat string        `json:"legendFormat"`
		Format       string        `json:"format,omitempty"`
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
		Mappings   []map[string]any   `json:"mappings,omitempty"`
		Links      []grafanaDataLink  `json:"links,omitempty"`
		Thresholds *grafanaThresholds `json:"thresholds,omitempty"`
	}
	grafanaThresholds struct {
		Mode  string        `json:"mode"`
		Steps []grafanaStep `json:"steps"`
	}
	grafanaStep struct {
		Color string   `json:"color"`
		Value *float64 `json:"value"` // nil for the lowest threshold
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

// annotations mark restarts and reloads on all dashboards.
func annotations() []grafanaAnnotation {
	mark := func(name, color, expr, title string) grafanaAnnotation {
		return grafanaAnnotation{Name: name, Enable: true, IconColor: color, Datasource: source, Expr: expr,
			Step: "30s", TitleFormat: title, UseValueForTime: true}
	}
	return []grafanaAnnotation{
		mark("Starts", "orange", "1000 * process_start_time_seconds and on (instance, job) capgate_build_info",
			"{{instance}} started"),
		mark("Reloads", "blue", "1000 * capgate_config_last_reload_success_timestamp_seconds",
			"{{instance}} loaded its configuration"),
	}
}

func (p *panel) grafana(dashboard string) grafanaPanel {
	g := grafanaPanel{Type: cmp.Or(string(p.kind), "timeseries"), Title: p.title, Description: p.about,
		Datasource: &source, FieldConfig: &grafanaFields{Overrides: []any{}}}
	for i, q := range p.queries {
		g.Targets = append(g.Targets, grafanaTarget{
			RefID: string(rune('A' + i)), Datasource: source, Expr: q.expr, LegendFormat: q.legend, Range: true,
			Exemplar: strings.Contains(q.expr, "_bucket"), // links to traces of calls
		})
	}
	g.FieldConfig.Defaults.Unit = p.unit
	g.FieldConfig.Defaults.Links = p.links(dashboard)
	switch p.kind {
	case statistic:
		p.stat(&g)
	case table:
		p.table(&g)
	case heatMap:
		p.heatMap(&g)
	case states:
		p.timeline(&g)
	case timeseries:
		p.timeseries(&g)
	}
	return g
}

// links returns links from the series of a panel to the dashboards for their labels.
func (p *panel) links(dashboard string) (links []grafanaDataLink) {
	for _, of := range []struct{ label, dashboard, title string }{
		{"capability", "fleets", "Fleet"}, {"tenant", "tenants", "Tenant"}, {"instance", "gateway", "Replica"},
	} {
		named := slices.ContainsFunc(p.queries, func(q query) bool {
			return strings.Contains(q.legend, "{{"+of.label+"}}")
		})
		if of.dashboard != dashboard && named {
			value := "${__field.labels." + of.label + ":percentencode}"
			if p.kind == table {
				value = "${__data.fields[0]:percentencode}" // its first column
			}
			links = append(links, grafanaDataLink{Title: of.title + " " + value, URL: "/d/capgate-" + of.dashboard +
				"?var-" + of.label + "=" + value + "&var-datasource=${datasource}&${__url_time_range}"})
		}
	}
	return append(links, p.consoleLinks()...)
}

// consoleLinks returns links from the series of a panel to the pages of the console.
func (p *panel) consoleLinks() (links []grafanaDataLink) {
	value := func(label string) string { return "${__field.labels." + label + ":percentencode}" }
	named := func(label string) bool {
		return slices.ContainsFunc(p.queries, func(q query) bool {
			return strings.Contains(q.legend, "{{"+label+"}}")
		})
	}
	switch {
	case p.kind == table:
	case named("capability") && named("tool"):
		return []grafanaDataLink{{Title: "Console: the tools of " + value("capability"), URL: "${console}/#/tools"}}
	case named("capability"):
		return []grafanaDataLink{{Title: "Console: fleets", URL: "${console}/#/fleets"}}
	case named("tenant"):
		return []grafanaDataLink{{Title: "Console: tenants", URL: "${console}/#/tenants"}}
	}
	return nil
}

// timeline shows values that are 0 or 1 as bars.
func (p *panel) timeline(g *grafanaPanel) {
	colors := [2]string{"red", "green"}
	if p.best == goodIsZero {
		colors = [2]string{"green", "red"}
	}
	one := 0.5
	g.FieldConfig.Defaults.Custom = map[string]any{"fillOpacity": 70, "lineWidth": 0}
	g.FieldConfig.Defaults.Thresholds = &grafanaThresholds{Mode: "absolute",
		Steps: []grafanaStep{{Color: colors[0]}, {Color: colors[1], Value: &one}}}
	g.FieldConfig.Defaults.Mappings = []map[string]any{{"type": "value", "options": map[string]any{
		"0": map[string]any{"text": "no"}, "1": map[string]any{"text": "yes"}}}}
	g.Options = map[string]any{
		"mergeValues": true, "showValue": "auto", "alignValue": "left", "rowHeight": 0.8,
		"legend":  map[string]any{"displayMode": "list", "placement": "bottom", "showLegend": true},
		"tooltip": map[string]any{"mode": "single"},
	}
}

func (p *panel) timeseries(g *grafanaPanel) {
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
}

func (p *panel) heatMap(g *grafanaPanel) {
	g.Targets[0].Format = "heatmap"
	g.Options = map[string]any{
		"calculate": false,
		"color":     map[string]any{"mode": "scheme", "scheme": "Oranges", "steps": 64, "exponent": 0.5},
		"yAxis":     map[string]any{"unit": p.unit, "axisPlacement": "left"},
		"cellGap":   1,
		"tooltip":   map[string]any{"mode": "single", "yHistogram": true},
		"legend":    map[string]any{"show": true},
		"exemplars": map[string]any{"color": "rgba(255,0,255,0.7)"},
	}
}

// table returns a panel with a row for each series, a column for each label, and one for the value, which is a time in
// milliseconds.
func (p *panel) table(g *grafanaPanel) {
	g.Targets[0].Range, g.Targets[0].Instant, g.Targets[0].Format = false, true, "table"
	g.FieldConfig.Defaults.Mappings = []map[string]any{{"type": "value",
		"options": map[string]any{"0": map[string]any{"text": "unknown"}}}}
	g.Options = map[string]any{"showHeader": true, "sortBy": []map[string]any{{"displayName": "Since", "desc": true}}}
	g.Transformations = []grafanaTransformation{{ID: "organize", Options: map[string]any{
		"excludeByName": map[string]bool{"Time": true},
		"indexByName":   map[string]int{"capability": 0, "backend": 1, "state": 2, "Value": 3, "reason": 4},
		"renameByName": map[string]string{"capability": "Capability", "backend": "Backend", "state": "State",
			"Value": "Since", "reason": "Why"},
	}}}
}

func (p *panel) stat(g *grafanaPanel) {
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
