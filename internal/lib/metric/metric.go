// Package metric lets a package define its own metrics, independently of how they are served.
package metric

// Source has metrics. Its values are read at every scrape, from any goroutine.
type Source interface{ Metrics() *Set }

// Set is a list of metrics with a common prefix.
type Set struct {
	Prefix string
	Descs  []*Desc
	Read   func(Writer) // writes the current values
}

// Desc describes a metric. Values of labels must be of a bounded set.
type Desc struct {
	Name, Help string
	Labels     []string
}

// New returns an empty Set.
func New(prefix string) *Set { return &Set{Prefix: prefix} }

// Add adds a metric.
func (s *Set) Add(name, help string, labels ...string) *Desc {
	d := &Desc{s.Prefix + name, help, labels}
	s.Descs = append(s.Descs, d)
	return d
}

// Metrics implements Source.
func (s *Set) Metrics() *Set { return s }

// Writer receives the values of one scrape. A counter only grows.
type Writer interface {
	Count(d *Desc, n int64, labels ...string)
	Gauge(d *Desc, v float64, labels ...string)
	Flag(d *Desc, set bool, labels ...string) // a gauge that is 1 or 0
	// Histogram writes all observations, their sum, and how many were at most as large as each bound.
	Histogram(d *Desc, n uint64, sum float64, atMost map[float64]uint64, labels ...string)
}
