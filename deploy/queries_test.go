package deploy

import (
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/capgate/capgate/internal/testkit/check"
)

// TestQueries executes every query of every panel, rule and alert, against a Prometheus
// that scrapes gateways under load.
func TestQueries(t *testing.T) {
	t.Parallel()
	g := startGateways(t)
	g.ready(t)
	g.load(t)
	p := startPrometheus(t, g.admin)
	boards := readDashboards(t)
	t.Run("panels", func(t *testing.T) { p.checkPanels(t, boards) })
	t.Run("rules", p.checkRules)
	t.Run("exemplars", p.checkExemplars)
	t.Run("metrics", func(t *testing.T) { p.checkMetrics(t, boards) })
}

// board is the tested part of a dashboard.
type board struct {
	Title, UID string
	Templating struct {
		List []struct{ Name, Type, Query string }
	}
	Annotations struct {
		List []struct{ Name, Expr string }
	}
	Panels []boardPanel
}

type boardPanel struct {
	Title   string
	Type    string
	Targets []struct{ Expr string }
	Panels  []boardPanel // of a collapsed row
}

// queries returns the queries of all panels and annotations, by their place.
func (b *board) queries() iter.Seq2[string, string] {
	return func(yield func(of, expr string) bool) {
		for _, a := range b.Annotations.List {
			if !yield(b.Title+": "+a.Name, a.Expr) {
				return
			}
		}
		for panels := b.Panels; len(panels) > 0; panels = panels[1:] {
			for _, target := range panels[0].Targets {
				if !yield(b.Title+": "+panels[0].Title, target.Expr) {
					return
				}
			}
			panels = slices.Concat(panels[:1], panels[0].Panels, panels[1:])
		}
	}
}

func readDashboards(t *testing.T) (all []board) {
	t.Helper()
	files, err := filepath.Glob("grafana/dashboards/*.json")
	check.Must(t, err)
	for _, file := range files {
		text, err := os.ReadFile(file)
		check.Must(t, err)
		var b board
		check.Must(t, json.Unmarshal(text, &b))
		all = append(all, b)
	}
	if len(all) != 5 {
		t.Fatalf("%d dashboards", len(all))
	}
	return all
}

// grafana replaces variables as Grafana does, with "All" selected for each.
var grafana = strings.NewReplacer("$__rate_interval", "5s", "$capability", ".*", "$tenant", ".*", "$instance", ".*")

func (p *prometheus) checkPanels(t *testing.T, boards []board) {
	n := 0
	for _, b := range boards {
		for _, v := range b.Templating.List {
			if v.Type != "query" {
				continue
			}
			label := regexp.MustCompile(`^label_values\((\w+), (\w+)\)$`).FindStringSubmatch(v.Query)
			if label == nil {
				t.Errorf("%s: %s: unknown placeholder %q", b.Title, v.Name, v.Query)
				continue
			}
			check.Succeeds(t, b.Title+": "+v.Query, func() error {
				values, err := p.values(label[2], label[1])
				if err == nil && len(values) == 0 {
					err = fmt.Errorf("no values")
				}
				return err
			})

		}
		for of, expr := range b.queries() {
			n++
			expr = grafana.Replace(expr)
			if strings.Contains(expr, "$") {
				t.Errorf("%s: an unknown variable in %s", of, expr)
				continue
			}
			check.Succeeds(t, of+": "+expr, func() error { return p.returnsData(expr) })
		}
	}
	t.Logf("%d queries of panels", n)
}

// checkExemplars checks that latencies have exemplars with trace ids.
func (p *prometheus) checkExemplars(t *testing.T) {
	check.Succeeds(t, "exemplars", func() error {
		var series []struct {
			Exemplars []struct{ Labels map[string]string }
		}
		query := url.Values{"query": {"capgate_call_duration_seconds_bucket"}, "start": {"0"},
			"end": {strconv.FormatInt(time.Now().Unix()+1, 10)}}
		if err := p.get("/api/v1/query_exemplars", query, &series); err != nil {
			return err
		}
		if len(series) == 0 || len(series[0].Exemplars) == 0 || series[0].Exemplars[0].Labels["trace_id"] == "" {
			return fmt.Errorf("no exemplar has a trace: %v", series)
		}
		return nil
	})

}

// checkRules checks that every rule is evaluated and that all of its comparisons have data: an alert without data would
// never fire.
func (p *prometheus) checkRules(t *testing.T) {
	var all []rule
	check.Succeeds(t, "rules", func() (err error) {
		all, err = p.rules()
		for _, r := range all {
			if err == nil && r.Health != "ok" {
				err = fmt.Errorf("%s: %s %s", r.Name, r.Health, r.LastError)
			}
		}
		if err == nil && len(all) == 0 {
			err = errors.New("no rule is loaded")
		}
		return err
	})

	for _, r := range all {
		expr := r.Name
		if r.Type == "alerting" {
			expr = compared(r.Query)
		}
		check.Succeeds(t, r.Type+" "+r.Name+": "+expr, func() error { return p.returnsData(expr) })
	}
	t.Logf("%d rules", len(all))
}

// labels matches the matchers of a selector.
var labels = regexp.MustCompile(`\{[^}]*\}`)

// compared returns an alert's expression in which each comparison returns its value even if it is false.
func compared(expr string) string {
	var text strings.Builder
	last := 0
	comparison := regexp.MustCompile(`(==|!=|>=|<=|>|<)`)
	outside := func(part string) { text.WriteString(comparison.ReplaceAllString(part, "$1 bool")) }
	for _, at := range labels.FindAllStringIndex(expr, -1) {
		outside(expr[last:at[0]])
		text.WriteString(expr[at[0]:at[1]])
		last = at[1]
	}
	outside(expr[last:])
	return text.String()
}

// checkMetrics checks that every metric of the gateway is on a dashboard, directly or through a recording rule, and
// that dashboards use only existing metrics.
func (p *prometheus) checkMetrics(t *testing.T, boards []board) {
	shown := map[string]bool{}
	show := func(expr string) {
		for _, name := range metrics(expr) {
			shown[name] = true
		}
	}
	var panels strings.Builder
	for _, b := range boards {
		for _, expr := range b.queries() {
			show(expr)
			panels.WriteString(expr + "\n")
		}
	}
	rules, err := p.rules()
	check.Must(t, err)
	asked := map[string]bool{}
	for _, r := range rules {
		if strings.Contains(panels.String(), r.Name) {
			show(r.Query)
		}
		for _, name := range metrics(r.Query) {
			asked[name] = true
		}
	}
	names, err := p.values("__name__", "")
	check.Must(t, err)
	for _, name := range names {
		if strings.HasPrefix(name, "capgate_") && !shown[name] &&
			!slices.ContainsFunc([]string{"_bucket", "_sum", "_count"}, func(end string) bool {
				family, of := strings.CutSuffix(name, end)
				return of && shown[family+"_bucket"]
			}) {
			t.Errorf("%s is on no dashboard", name)
		}
	}
	for name := range shown {
		asked[name] = true
	}
	for name := range asked {
		if !slices.Contains(names, name) {
			t.Errorf("%s is on a dashboard and does not exist", name)
		}
	}
}
