package deploy

import (
	"encoding/json"
	"fmt"
	"math"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/clienttest"
)

// prometheus is a running Prometheus.
type prometheus struct{ url string }

// startPrometheus starts a Prometheus with the deployed configuration, except for the targets and the intervals, which
// are shorter.
func startPrometheus(t *testing.T, targets []string) *prometheus {
	t.Helper()
	text, err := os.ReadFile("prometheus/prometheus.yml")
	check.Must(t, err)
	var config map[string]any
	check.Must(t, yaml.Unmarshal(text, &config))
	config["global"] = map[string]any{"scrape_interval": "500ms", "scrape_timeout": "500ms",
		"evaluation_interval": "500ms"}
	rules, err := filepath.Abs("prometheus/rules")
	check.Must(t, err)
	config["rule_files"] = []string{rules + "/*.yml"}
	for _, job := range config["scrape_configs"].([]any) {
		job := job.(map[string]any)
		delete(job, "dns_sd_configs")
		job["static_configs"] = []any{map[string]any{"targets": targets}}
	}
	file := filepath.Join(t.TempDir(), "prometheus.yml")
	text, err = yaml.Marshal(config)
	check.Must(t, err)
	check.Must(t, os.WriteFile(file, text, 0o600))
	p := start(t, "prometheus", "--config.file="+file, "--storage.tsdb.path="+t.TempDir(),
		"--web.listen-address=127.0.0.1:0",
		"--enable-feature=exemplar-storage")
	log := p.wait(t, "Server is ready to receive web requests")
	addr := regexp.MustCompile(`msg="?Listening on"? address=(127\.0\.0\.1:\d+)`).FindStringSubmatch(log)
	if addr == nil {
		t.Fatalf("the output does not have Prometheus' address:\n%s", log)
	}
	return &prometheus{"http://" + addr[1]}
}

// get sends a request to the JSON API.
func (p *prometheus) get(path string, query url.Values, data any) error {
	resp, err := clienttest.HTTP.Get(p.url + path + "?" + query.Encode())
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	answer := struct {
		Data  any
		Error string
	}{Data: data}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		return fmt.Errorf("%s: %w", resp.Status, err)
	}
	if answer.Error != "" {
		return fmt.Errorf("%s", answer.Error)
	}
	return nil
}

// sample is the newest value of a series.
type sample struct {
	labels map[string]string
	value  float64
}

// query executes a query at the current time.
func (p *prometheus) query(expr string) ([]sample, error) {
	var data struct {
		Result []struct {
			Metric map[string]string
			Value  [2]any
		}
	}
	if err := p.get("/api/v1/query", url.Values{"query": {expr}}, &data); err != nil {
		return nil, err
	}
	var all []sample
	for _, r := range data.Result {
		text, _ := r.Value[1].(string)
		value, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return nil, err
		}
		all = append(all, sample{r.Metric, value})
	}
	return all, nil
}

// returnsData executes a query and returns an error if there is no data. Series without any number count as no data,
// because Grafana does not show them.
func (p *prometheus) returnsData(expr string) error {
	all, err := p.query(expr)
	if err != nil {
		return err
	}
	for _, s := range all {
		if !math.IsNaN(s.value) {
			return nil
		}
	}
	return fmt.Errorf("%d series, none with a number", len(all))
}

// values returns the values of a metric's label.
func (p *prometheus) values(label, metric string) (all []string, err error) {
	query := url.Values{"start": {strconv.FormatInt(time.Now().Add(-time.Hour).Unix(), 10)}}
	if metric != "" {
		query.Set("match[]", metric)
	}
	err = p.get("/api/v1/label/"+label+"/values", query, &all)
	return all, err
}

// rule is a rule that Prometheus has loaded.
type rule struct{ Name, Query, Type, Health, LastError string }

func (p *prometheus) rules() (all []rule, err error) {
	var data struct{ Groups []struct{ Rules []rule } }
	err = p.get("/api/v1/rules", nil, &data)
	for _, g := range data.Groups {
		all = append(all, g.Rules...)
	}
	return all, err
}

// name matches a metric, a recorded metric, a label, a function or a keyword.
var name = regexp.MustCompile(`[A-Za-z_:][\w:]*`)

// metrics returns the names of scraped metrics in an expression.
func metrics(expr string) (all []string) {
	for _, word := range name.FindAllString(labels.ReplaceAllString(expr, ""), -1) {
		if metric.MatchString(word) {
			all = append(all, word)
		}
	}
	return all
}

var metric = regexp.MustCompile(`^(up|(capgate|process|go)_\w+)$`)
