package telemetry

import (
	"runtime"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/capgate/capgate/internal/call"
)

// collector turns the cells into Prometheus metrics at a scrape.
//
// client_golang's own counters cost a third more for a call, even with the lookup done beforehand
// (BenchmarkClientGolang). They would need an object for every capability, method, code and outcome, and all
// shards would write to the same ones.
type collector struct {
	metrics
	from *Metrics

	calls, inFlight, duration, bytes *prometheus.Desc
	refusals, asked, failures        *prometheus.Desc
	differences                      *prometheus.Desc
	droppedLines, buildInfo          *prometheus.Desc
}

func newCollector(m *Metrics) *collector {
	c := &collector{metrics: metrics{prefix: "capgate_"}, from: m}
	c.calls = c.add("calls_total", "Finished calls. Outcome is the result in the payload: success, tool_error, "+
		"incomplete, or empty.",
		"capability", "method", "code", "outcome")
	c.inFlight = c.add("calls_in_flight", "Calls that were routed and have not finished.", "capability")
	c.duration = c.add("call_duration_seconds", "Time from a call's headers to its end, without the time for which it "+
		"waited for a person's approval.", "capability", "code")
	c.bytes = c.add("call_bytes_total", "Message bytes of finished calls; in is from the client.", "capability",
		"direction")
	c.refusals = c.add("refusals_total", "Calls that the gateway rejected, by reason. Calls that need approval are in "+
		"asked_total.", "reason")
	c.asked = c.add("asked_total", "Calls that did not run yet because they need approval.")
	c.failures = c.add("failures_total", "Calls that the relay ended because of a failure, by cause.", "failure")
	c.differences = c.add("policy_shadow_differences_total",
		"Calls with another decision by the candidate rules, by both decisions.",
		"capability", "decision", "candidate")
	c.droppedLines = c.add("log_lines_dropped_total",
		"Access log lines that were lost because the sink was slow or failed.")
	c.buildInfo = c.add("build_info", "Always 1.", "version", "revision", "goversion")
	return c
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	to := emitter(ch)
	for _, h := range c.from.capabilities() {
		c.emitCapability(to, h)
	}
	c.emitReasons(to, c.refusals, &c.from.refusals)
	c.emitReasons(to, c.failures, &c.from.failures)
	to.count(c.asked, c.from.asked.Load())
	if log := c.from.cfg.Log; log != nil {
		to <- prometheus.MustNewConstMetric(c.droppedLines, prometheus.CounterValue, float64(log.Dropped()))
	}
	to.gauge(c.buildInfo, 1, c.from.cfg.Version, c.from.cfg.Revision, runtime.Version())
}

func (c *collector) emitReasons(to emitter, desc *prometheus.Desc, counter *reasonCounter) {
	for reason, n := range counter.snapshot() {
		to.count(desc, n.Load(), reason)
	}
}

func (c *collector) emitCapability(to emitter, h *CapabilityMetrics) {
	var inFlight int64
	for i := range h.inFlight {
		inFlight += h.inFlight[i].Load()
	}
	to.gauge(c.inFlight, float64(inFlight), h.name)

	var bytesIn, bytesOut int64
	var byCode [numCodes]latency
	for method := range h.methods {
		codes := h.methods[method].Load()
		if codes == nil {
			continue
		}
		for code := range codes {
			if row := codes[code].Load(); row != nil {
				in, out := c.emitCalls(to, *row, h.name, call.Method(method).String(), codeNames[code])
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
			to <- l.metric(bucketBounds[:], c.duration, c.from.since, h.name, codeNames[code])
		}
	}
	to.count(c.bytes, bytesIn, h.name, "in")
	to.count(c.bytes, bytesOut, h.name, "out")
	h.emitDifferences(to, c.differences)
}

// emitCalls emits the calls of one method with one code, and returns their number of bytes.
func (c *collector) emitCalls(to emitter, row series, labels ...string) (in, out int64) {
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
			to.count(c.calls, n, append(labels, outcomeNames[o])...)
		}
	}
	return in, out
}
