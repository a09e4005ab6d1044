package observe

import (
	"runtime"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/capgate/capgate/internal/call"
)

// collector turns the cells into Prometheus metrics when somebody scrapes.
//
// Why not client_golang's own counters: for one call they cost a third more than
// the cells even when looked up beforehand (BenchmarkClientGolang), they would need
// an object for every capability, method, code and outcome, and all shards would
// write to the same ones.
type collector struct {
	metrics *Metrics

	calls, inFlight, duration, bytes   *prometheus.Desc
	refusals, failures, differences    *prometheus.Desc
	upstreams, droppedLines, buildInfo *prometheus.Desc
	leases                             *prometheus.Desc
	tenants                            tenantDescs
	fleets                             fleetDescs
	config                             configDescs
	redis                              redisDescs
	health                             healthDescs
	registry                           registryDescs
	shields                            shieldDescs
	overload                           *prometheus.Desc
	catalog                            catalogDescs
}

func newCollector(m *Metrics) *collector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("capgate_"+name, help, labels, nil)
	}
	return &collector{
		metrics: m,
		calls: desc("calls_total", "Finished calls. Outcome is what the payload says: success, tool_error, incomplete, or nothing.",
			"capability", "method", "code", "outcome"),
		inFlight: desc("calls_in_flight", "Calls that were routed and have not finished.", "capability"),
		duration: desc("call_duration_seconds", "Time from a call's headers to its end.", "capability", "code"),
		bytes:    desc("call_bytes_total", "Message bytes of finished calls; in is from the client.", "capability", "direction"),
		refusals: desc("refusals_total", "Calls that the gateway refused.", "reason"),
		failures: desc("failures_total", "Calls that the relay ended because something broke.", "failure"),
		differences: desc("policy_shadow_differences_total", "Calls of which candidate rules would have decided otherwise: what was decided, and what they would have said.",
			"capability", "decision", "candidate"),
		upstreams:    desc("upstream_connections", "Open connections to backends."),
		droppedLines: desc("log_lines_dropped_total", "Log lines of calls that were lost because the sink was slow or failed."),
		buildInfo:    desc("build_info", "Always 1.", "version", "revision", "goversion"),
		leases:       desc("limit_leases_total", "Questions how much of tenants' limits this replica may use.", "result"),
		tenants:      newTenantDescs(),
		fleets:       newFleetDescs(),
		config:       newConfigDescs(),
		redis:        newRedisDescs(),
		health:       newHealthDescs(),
		registry:     newRegistryDescs(),
		shields:      newShieldDescs(),
		overload:     newOverloadDesc(),
		catalog:      newCatalogDescs(),
	}
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range append(slices.Concat(c.tenants.all(), c.fleets.all(), c.config.all(), c.redis.all(), c.health.all(), c.registry.all(), c.shields.all(), c.catalog.all()), c.overload, c.calls, c.inFlight, c.duration, c.bytes, c.refusals, c.failures, c.differences,
		c.upstreams, c.droppedLines, c.buildInfo, c.leases) {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	for _, h := range c.metrics.capabilities() {
		c.collectCapability(ch, h)
	}
	c.tenants.collect(ch, c.metrics.tenants)
	c.collectReasons(ch, c.refusals, &c.metrics.refusals)
	c.collectReasons(ch, c.failures, &c.metrics.failures)
	if count := c.metrics.upstreams.Load(); count != nil {
		ch <- prometheus.MustNewConstMetric(c.upstreams, prometheus.GaugeValue, float64((*count)()))
	}
	if fleets := c.metrics.fleets.Load(); fleets != nil {
		for f := range *fleets {
			c.fleets.collect(ch, &f)
		}
	}
	if loads := c.metrics.config.Load(); loads != nil {
		c.config.collect(ch, (*loads)())
	}
	if ask := c.metrics.members.Load(); ask != nil {
		r := (*ask)()
		c.registry.collect(ch, &r)
	}
	if tools := c.metrics.tools.Load(); tools != nil {
		for t := range *tools {
			c.catalog.collect(ch, &t)
		}
	}
	if ask := c.metrics.redis.Load(); ask != nil {
		r := (*ask)()
		c.redis.collect(ch, &r)
	}
	if ask := c.metrics.health.Load(); ask != nil {
		h := (*ask)()
		c.health.collect(ch, &h)
	}
	if ask := c.metrics.shields.Load(); ask != nil {
		for _, s := range (*ask)() {
			c.shields.collect(ch, &s)
		}
	}
	if ask := c.metrics.overload.Load(); ask != nil {
		collectOverload(ch, c.overload, (*ask)())
	}
	if ask := c.metrics.leases.Load(); ask != nil {
		collectLeases(ch, c.leases, (*ask)())
	}
	if log := c.metrics.cfg.Log; log != nil {
		ch <- prometheus.MustNewConstMetric(c.droppedLines, prometheus.CounterValue, float64(log.Dropped()))
	}
	ch <- prometheus.MustNewConstMetric(c.buildInfo, prometheus.GaugeValue, 1,
		c.metrics.cfg.Version, c.metrics.cfg.Revision, runtime.Version())
}

func (c *collector) collectReasons(ch chan<- prometheus.Metric, desc *prometheus.Desc, counter *reasonCounter) {
	for reason, n := range counter.snapshot() {
		ch <- prometheus.MustNewConstMetric(desc, prometheus.CounterValue, float64(n.Load()), reason)
	}
}

func (c *collector) collectCapability(ch chan<- prometheus.Metric, h *CapabilityMetrics) {
	var inFlight int64
	for i := range h.inFlight {
		inFlight += h.inFlight[i].Load()
	}
	ch <- prometheus.MustNewConstMetric(c.inFlight, prometheus.GaugeValue, float64(inFlight), h.name)

	var bytesIn, bytesOut int64
	var byCode [numCodes]latency
	for method := range h.methods {
		codes := h.methods[method].Load()
		if codes == nil {
			continue
		}
		for code := range codes {
			if row := codes[code].Load(); row != nil {
				in, out := c.collectCalls(ch, *row, h.name, call.Method(method).String(), codeNames[code])
				bytesIn += in
				bytesOut += out
				for i := range *row {
					byCode[code].add(&(*row)[i].took)
				}
			}
		}
	}
	for code := range byCode {
		if l := &byCode[code]; l.count() > 0 {
			l.exemplars = h.exemplars[code].Load().list()
			ch <- l.metric(c.duration, c.metrics.since, h.name, codeNames[code])
		}
	}
	ch <- prometheus.MustNewConstMetric(c.bytes, prometheus.CounterValue, float64(bytesIn), h.name, "in")
	ch <- prometheus.MustNewConstMetric(c.bytes, prometheus.CounterValue, float64(bytesOut), h.name, "out")
	h.collectDifferences(ch, c.differences)
}

// collectCalls tells of the calls of one method that ended with one code, and answers how
// many bytes they were.
func (c *collector) collectCalls(ch chan<- prometheus.Metric, row series, labels ...string) (in, out int64) {
	var outcomes [numOutcomes]int64
	for i := range row {
		for o := range outcomes {
			outcomes[o] += row[i].outcomes[o].Load()
		}
		in += row[i].bytesIn.Load()
		out += row[i].bytesOut.Load()
	}
	for o, n := range outcomes {
		if n > 0 {
			ch <- prometheus.MustNewConstMetric(c.calls, prometheus.CounterValue, float64(n), append(labels, outcomeNames[o])...)
		}
	}
	return in, out
}
