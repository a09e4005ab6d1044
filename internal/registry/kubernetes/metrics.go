package kubernetes

import (
	"cmp"
	"fmt"
	"time"

	"github.com/capgate/capgate/internal/lib/kubeapi"
	"github.com/capgate/capgate/internal/lib/metric"
)

// anyNamespace is the label of a resource in all namespaces.
const anyNamespace = "*"

// Metrics implements metric.Source. Namespaces are those of the configuration.
func (d *Discovery) Metrics() *metric.Set {
	m := metric.New("capgate_kubernetes_")
	backends := m.Add("backends", "Backends from EndpointSlices.")
	objects := m.Add("objects", "Known objects.", "resource", "namespace")
	stale := m.Add("stale_seconds",
		"Time since the objects could last be followed, whose last state stays in use; 0 while they can.", "resource",
		"namespace")
	failures := m.Add("failures_total", "Lists and watches that failed.", "resource", "namespace")
	lists := m.Add("lists_total", "Complete lists of the objects.", "resource", "namespace")
	refused := m.Add("refused_services", "Services that announce capabilities beyond the share of their namespace.")
	waiting := m.Add("waiting_services", "Services left out until their manifests have been read.")
	m.Read = func(w metric.Writer) {
		w.Gauge(backends, float64(len(d.Members())))
		w.Gauge(refused, float64(d.shown.Load().refused))
		w.Gauge(waiting, float64(d.shown.Load().waiting))
		for _, f := range d.mirrors() {
			s, r := f.State(), f.Resource()
			labels := []string{r.Title(), cmp.Or(r.Namespace, anyNamespace)}
			w.Gauge(objects, float64(s.Objects), labels...)
			w.Gauge(stale, staleFor(&s).Seconds(), labels...)
			w.Count(failures, s.Failures, labels...)
			w.Count(lists, s.Lists, labels...)
		}
	}
	return m
}

// staleFor returns the time since objects could last be followed; 0: they can.
func staleFor(s *kubeapi.State) time.Duration {
	if s.Since.IsZero() {
		return 0
	}
	return time.Since(s.Since)
}

// Warnings returns what operators should know: resources that cannot be followed, and endpoints that are left out.
func (d *Discovery) Warnings() (texts []string) {
	for _, f := range d.mirrors() {
		if s := f.State(); s.Err != nil {
			use := "the last known state is used"
			if !s.Synced {
				use = "they have not been listed yet"
			}
			texts = append(texts, fmt.Sprintf("kubernetes: %s cannot be followed for %s, and %s: %v", f.Resource(),
				staleFor(&s).Round(time.Second), use, s.Err))
		}
	}
	if n := d.shown.Load().waiting; n > 0 {
		texts = append(texts, fmt.Sprintf("kubernetes: %d Services are left out until their manifests have been read",
			n))
	}
	for _, p := range d.shown.Load().problems.lines() {
		texts = append(texts, leftOutProblem+": "+p)
	}
	return texts
}
