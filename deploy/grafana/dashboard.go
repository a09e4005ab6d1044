package main

import (
	"bytes"
	"encoding/json"
	"strings"
)

// dashboard is the definition of a dashboard.
type dashboard struct {
	name, title, about string
	variables          []variable
	rows               []row
}

type row struct {
	title  string
	panels []panel
}

// panel is a chart over time by default. A row has three panels side by side.
type panel struct {
	title, about string
	unit         string // Grafana's unit: reqps, s, percentunit, short, …
	queries      []query
	kind         string // default timeseries; stat: only the newest value
	stacked      bool   // stacked series
	quiet        bool   // of a stat: should be 0, red otherwise
}

type query struct{ expr, legend string }

// variable is a selection at the top of a dashboard, among the values of a label.
type variable struct{ label, metric string }

// chart is a panel over time.
func chart(title, unit, about string, queries ...query) panel {
	return panel{title: title, unit: unit, about: about, queries: queries}
}

// stacks is a chart of stacked series.
func stacks(title, unit, about string, queries ...query) panel {
	p := chart(title, unit, about, queries...)
	p.stacked = true
	return p
}

// stat is a number that should be 0.
func stat(title, unit, about, expr string) panel {
	return panel{title: title, unit: unit, about: about, queries: []query{{expr, ""}}, kind: "stat", quiet: true}
}

// count is a number without a good or bad value.
func count(title, unit, about, expr string) panel {
	p := stat(title, unit, about, expr)
	p.quiet = false
	return p
}

// quantiles returns the queries of p50, p95 and p99 of a histogram.
func quantiles(histogram, selector string) []query {
	var all []query
	for _, q := range []struct{ quantile, legend string }{{"0.5", "p50"}, {"0.95", "p95"}, {"0.99", "p99"}} {
		all = append(all, query{"histogram_quantile(" + q.quantile + ", sum by (le) (rate(" + histogram + "_bucket" +
			selector + "[$__rate_interval])))", q.legend})
	}
	return all
}

// per is the rate of a counter, by a label.
func per(label, counter string) query {
	return query{"sum by (" + label + ") (rate(" + counter + "[$__rate_interval]))", legends(label)}
}

// gauge is a gauge, added up by a label.
func gauge(label, metric string) query {
	return query{"sum by (" + label + ") (" + metric + ")", legends(label)}
}

// rate is the rate of a counter at all replicas.
func rate(counter, legend string) query {
	return query{"sum(rate(" + counter + "[$__rate_interval]))", legend}
}

// legends returns the legend of labels: {{a}} {{b}} for "a, b".
func legends(labels string) string {
	return "{{" + strings.Join(strings.Split(labels, ", "), "}} {{") + "}}"
}

const (
	perRow  = 3 // panels
	width   = 24 / perRow
	height  = 8
	statTop = 6 // stats in a row, and their width and height
	statWid = 24 / statTop
	statHgt = 4
)

// json returns Grafana's JSON of the dashboard.
func (d *dashboard) json() []byte {
	out := grafanaDashboard{
		UID: "capgate-" + d.name, Title: "capgate / " + d.title, Description: d.about,
		Tags: []string{"capgate"}, SchemaVersion: 39, Editable: true, Refresh: "30s", Timezone: "browser",
		Time: grafanaTime{"now-1h", "now"},
		Links: []grafanaLink{{Title: "capgate", Type: "dashboards", Tags: []string{"capgate"}, AsDropdown: true,
			KeepTime: true}},
		Templating: grafanaList{[]grafanaVariable{{Name: "datasource", Label: "Data source", Type: "datasource",
			Query: "prometheus"}}},
	}
	for _, v := range d.variables {
		out.Templating.List = append(out.Templating.List, v.grafana())
	}
	y := 0
	for _, r := range d.rows {
		out.Panels = append(out.Panels, grafanaPanel{ID: len(out.Panels) + 1, Type: "row", Title: r.title,
			GridPos: grid{0, y, 24, 1}})
		y++
		x, line := 0, 0
		for i := range r.panels {
			w, h := width, height
			if r.panels[i].kind == "stat" {
				w, h = statWid, statHgt
			}
			if x+w > 24 || line != 0 && h != line {
				x, y = 0, y+line
			}
			g := r.panels[i].grafana()
			g.ID, g.GridPos = len(out.Panels)+1, grid{x, y, w, h}
			out.Panels = append(out.Panels, g)
			x, line = x+w, h
		}
		y += line
	}
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	_ = enc.Encode(out) // never fails for this type
	return text.Bytes()
}
