package main

import (
	"strings"

	"github.com/capgate/capgate/internal/lib/plainjson"
)

// dashboard is the definition of a dashboard.
type dashboard struct {
	name, title, about string
	console            string // the page of the console with the same subject
	variables          []variable
	rows               []row
}

type row struct {
	title  string
	panels []panel
	// optional marks a row of a feature that may be unused: it is collapsed, and runs no queries until it is opened.
	optional bool
}

// panel is a chart over time by default. A row has three panels side by side.
type panel struct {
	title, about string
	unit         string // Grafana's unit: reqps, s, percentunit, short, …
	queries      []query
	kind         kind
	stacked      bool // stacked series
	quiet        bool // a stat that should be 0, and is red otherwise
	best         good // good value of a timeline
}

// kind is the form in which a panel shows its data.
type kind string

const (
	timeseries kind = ""               // lines over time
	statistic  kind = "stat"           // the newest value
	heatMap    kind = "heatmap"        // the distribution of a histogram over time
	table      kind = "table"          // the newest value and labels of each series, one a row
	states     kind = "state-timeline" // a bar for each series; the color shows whether its value is good
)

type query struct{ expr, legend string }

// variable is a selection at the top of a dashboard, among the values of a label.
type variable struct{ label, metric string }

// chart returns a panel over time.
func chart(title, unit, about string, queries ...query) panel {
	return panel{title: title, unit: unit, about: about, queries: queries}
}

// stacks returns a chart of stacked series.
func stacks(title, unit, about string, queries ...query) panel {
	p := chart(title, unit, about, queries...)
	p.stacked = true
	return p
}

// stat returns a number that should be 0.
func stat(title, unit, about, expr string) panel {
	return panel{title: title, unit: unit, about: about, queries: []query{{expr, ""}}, kind: statistic, quiet: true}
}

// count returns a number without a good or bad value.
func count(title, unit, about, expr string) panel {
	p := stat(title, unit, about, expr)
	p.quiet = false
	return p
}

// good is the value of a timeline that is good.
type good int

const (
	goodIsZero good = 0
	goodIsOne  good = 1
)

// timeline returns a panel of values that are 0 or 1.
func timeline(title, about string, best good, queries ...query) panel {
	return panel{title: title, about: about, queries: queries, kind: states, best: best}
}

// heat returns the distribution of a histogram's values over time.
func heat(title, unit, about, histogram, selector string) panel {
	p := chart(title, unit, about, query{"sum by (le) (increase(" + histogram + "_bucket" + selector +
		"[$__rate_interval]))", "{{le}}"})
	p.kind = heatMap
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

// per returns the rate of a counter, by a label.
func per(label, counter string) query {
	return query{"sum by (" + label + ") (rate(" + counter + "[$__rate_interval]))", legends(label)}
}

// gauge returns a gauge, added up by a label.
func gauge(label, metric string) query {
	return query{"sum by (" + label + ") (" + metric + ")", legends(label)}
}

// rate returns the rate of a counter at all replicas.
func rate(counter, legend string) query {
	return query{"sum(rate(" + counter + "[$__rate_interval]))", legend}
}

// legends returns the legend of labels: {{a}} {{b}} for "a, b".
func legends(labels string) string {
	return "{{" + strings.Join(strings.Split(labels, ", "), "}} {{") + "}}"
}

// consoleURL is the default of the variable console: the address of the admin API for people.
const consoleURL = "http://localhost:8081"

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
		Links: []grafanaLink{{Title: "capgate", Type: "dashboards", Icon: "external link", Tags: []string{"capgate"},
			AsDropdown: true, KeepTime: true}, {Title: "Console", Type: "link", Icon: "external link",
			Tags: []string{}, URL: "${console}/" + d.console, Tooltip: "capgate's console", TargetBlank: true}},
		Annotations: grafanaAnnotations{annotations()},
		Templating: grafanaList{[]grafanaVariable{{Name: "datasource", Label: "Data source", Type: "datasource",
			Query: "prometheus"}, {Name: "console", Label: "Console", Type: "textbox", Query: consoleURL,
			Current: &grafanaCurrent{Text: consoleURL, Value: consoleURL}}}},
	}
	for _, v := range d.variables {
		out.Templating.List = append(out.Templating.List, v.grafana())
	}
	l := layout{}
	for _, r := range d.rows {
		out.Panels = append(out.Panels, l.row(r, d.name)...)
	}
	text, _ := plainjson.Indent(out) // never fails for this type
	return text
}

// layout places panels: rows below each other, and the panels of a row side by side.
type layout struct{ y, ids int }

// row returns the panels of a row of a dashboard, with its title first.
func (l *layout) row(r row, dashboard string) []grafanaPanel {
	title := l.place(grafanaPanel{Type: "row", Title: r.title, Collapsed: r.optional}, grid{0, l.y, 24, 1})
	l.y++
	from, x, line := l.y, 0, 0
	var panels []grafanaPanel
	for i := range r.panels {
		w, h := r.panels[i].size()
		if x+w > 24 || line != 0 && h != line {
			x, l.y = 0, l.y+line
		}
		panels = append(panels, l.place(r.panels[i].grafana(dashboard), grid{x, l.y, w, h}))
		x, line = x+w, h
	}
	l.y += line
	if !r.optional {
		return append([]grafanaPanel{title}, panels...)
	}
	l.y, title.Panels = from, panels // a collapsed row has its panels inside
	return []grafanaPanel{title}
}

func (l *layout) place(p grafanaPanel, at grid) grafanaPanel {
	l.ids++
	p.ID, p.GridPos = l.ids, at
	return p
}

func (p *panel) size() (w, h int) {
	switch p.kind {
	case statistic:
		return statWid, statHgt
	case table:
		return 24, height
	case timeseries, heatMap, states:
	}
	return width, height
}
