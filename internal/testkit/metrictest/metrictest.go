// Package metrictest reads the metrics of a metric.Source.
package metrictest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/capgate/capgate/internal/lib/metric"
)

// Read returns the values of one scrape, by name{label="value"}. A histogram is its number of observations.
func Read(t testing.TB, s metric.Source) map[string]float64 {
	t.Helper()
	w := writer{t, map[string]float64{}}
	s.Metrics().Read(w)
	return w.values
}

// writer stores values.
type writer struct {
	t      testing.TB
	values map[string]float64
}

func (w writer) add(d *metric.Desc, v float64, labels []string) {
	w.t.Helper()
	if len(labels) != len(d.Labels) {
		w.t.Fatalf("%s has the labels %v, and values %v", d.Name, d.Labels, labels)
	}
	name := d.Name
	for i, label := range d.Labels {
		name += fmt.Sprintf(",%s=%q", label, labels[i])
	}
	if first := strings.IndexByte(name, ','); first >= 0 {
		name = name[:first] + "{" + name[first+1:] + "}"
	}
	if _, twice := w.values[name]; twice {
		w.t.Errorf("%s is written twice", name)
	}
	w.values[name] = v
}

func (w writer) Count(d *metric.Desc, n int64, labels ...string)   { w.add(d, float64(n), labels) }
func (w writer) Gauge(d *metric.Desc, v float64, labels ...string) { w.add(d, v, labels) }

func (w writer) Flag(d *metric.Desc, set bool, labels ...string) {
	v := 0.0
	if set {
		v = 1
	}
	w.add(d, v, labels)
}

func (w writer) Histogram(d *metric.Desc, n uint64, _ float64, _ map[float64]uint64, labels ...string) {
	w.add(d, float64(n), labels)
}
