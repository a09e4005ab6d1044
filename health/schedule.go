package health

import (
	"container/heap"
	"time"

	"github.com/capgate/capgate/internal/lib/backoff"
)

// Probe is the probing of one backend by this replica. Between Step, which returns it, and
// OnProbe it belongs to the caller.
type Probe struct {
	endpoint  *endpoint // nil: no longer needed
	threshold threshold
	due       time.Time // time of the next probe
	heapIndex int       // in the heap; -1: not in it, a probe is in flight
	spec      *Fleet    // changes only while no probe is in flight
	addr      string

	ended   time.Time     // time of the last result
	backoff time.Duration // grows with consecutive bad results; 0: the last one was good

	reaches  bool   // it checks this replica's network alone
	role     Role   // the role of its observation
	episode  uint32 // of the primary's observation, which the secondary answers
	observed bool   // an observation was made in this role

	client *client // owned by the prober
}

// Capability returns the capability of the backend.
func (p *Probe) Capability() string { return p.spec.Capability }

// Addr returns the backend's address, host:port.
func (p *Probe) Addr() string { return p.addr }

// Timeout bounds the probe, including the connection.
func (p *Probe) Timeout() time.Duration { return p.spec.Config.Timeout }

// schedule starts the probing of ep; the first probe is made when due.
func (r *Replica) schedule(ep *endpoint, due time.Time) *Probe {
	spec := ep.fleet.spec
	p := &Probe{
		endpoint: ep, due: due, heapIndex: -1, spec: spec, addr: ep.addr(),
		threshold: threshold{rise: spec.Config.Rise, fall: spec.Config.Fall},
	}
	ep.probe = p
	heap.Push(&r.queue, p)
	return p
}

// unschedule stops the probing of ep.
func (r *Replica) unschedule(ep *endpoint) {
	p := ep.probe
	if p == nil {
		return
	}
	ep.probe, p.endpoint = nil, nil
	if p.heapIndex >= 0 {
		heap.Remove(&r.queue, p.heapIndex)
		r.released = append(r.released, p)
	}
}

// dueProbes returns the probes to make now, at most as many as may run concurrently.
func (r *Replica) dueProbes(now time.Time) []*Probe {
	var due []*Probe
	for len(r.queue) > 0 && r.inFlight < r.options.MaxConcurrent && !r.queue[0].due.After(now) {
		due = append(due, heap.Pop(&r.queue).(*Probe))
		r.inFlight++
	}
	return due
}

// OnProbe takes the result of a probe that Step returned.
func (r *Replica) OnProbe(now time.Time, p *Probe, result Result) {
	r.inFlight--
	r.noteAnswer(now, result)
	if p.endpoint == nil {
		r.released = append(r.released, p)
		return
	}
	p.configure(p.endpoint.fleet.spec)
	others := p.endpoint.fleet.snap.Up()
	if p.endpoint.backend().State == Up { // perhaps by a probe on demand, before this replica was to probe it for all
		others--
	}
	if others == 0 {
		p.threshold.rise = 1
	}
	p.threshold.observe(result.OK)
	p.ended, p.due = now, now.Add(r.interval(now, p, result))
	heap.Push(&r.queue, p)
	if !result.OK {
		r.heard(p.endpoint, result.Reason)
	}
	r.onResult(now, p, result)
	r.publish()
}

// Stop ends all probing and returns the probes. The caller must first wait for the probes in flight.
func (r *Replica) Stop() []*Probe {
	all := append(r.released, r.queue...)
	r.released, r.queue = nil, nil
	return all
}

// configure applies spec to the next probes.
func (p *Probe) configure(spec *Fleet) {
	p.spec = spec
	p.threshold.rise, p.threshold.fall = spec.Config.Rise, spec.Config.Fall
}

// probeAt makes the next probe due at a time, unless one is in flight.
func (r *Replica) probeAt(p *Probe, due time.Time) {
	if p.heapIndex >= 0 {
		p.due = due
		heap.Fix(&r.queue, p.heapIndex)
	}
}

// interval returns the time to the next probe. A failure that awaits confirmation is probed again
// soon, and an orphan without traffic seldom. A backend that does not run yet is probed again with a backoff, and so is
// one for which calls wait.
func (r *Replica) interval(now time.Time, p *Probe, result Result) time.Duration {
	c := &p.spec.Config
	d := c.Interval
	switch {
	case p.threshold.streak > 0 && p.threshold.state == Up:
		d /= 4
	case p.endpoint.orphan && !r.options.Used(p.spec.Capability, p.addr):
		d = max(d, r.options.Stale/2)
	}
	p.backoff = min(max(2*p.backoff, minBackoff), c.Interval)
	switch soon := min(p.backoff, maxWantedGap); {
	case result.OK:
		p.backoff = 0
	case now.Before(p.endpoint.fleet.wantedUntil):
		if soon < d && r.wantedProbes.Take(now) == 0 {
			d = soon
		}
	case (result.Refused || result.Unresolved) && p.backoff < d && r.earlyProbes.Take(now) == 0:
		d = p.backoff
	}
	return r.jitter(d, c.Jitter)
}

// jitter varies d by up to share of it in both directions, so that the probes of many backends
// and gateways do not synchronize.
func (r *Replica) jitter(d time.Duration, share float64) time.Duration {
	return backoff.JitterFrom(r.options.Jitter, d, share)
}

// probeQueue is a heap of probes; the one that is due first is on top. Its order does not depend on that of maps.
type probeQueue []*Probe

func (q probeQueue) Len() int { return len(q) }
func (q probeQueue) Less(i, j int) bool {
	if !q[i].due.Equal(q[j].due) {
		return q[i].due.Before(q[j].due)
	}
	return q[i].endpoint.hash < q[j].endpoint.hash
}

func (q probeQueue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].heapIndex, q[j].heapIndex = i, j
}

func (q *probeQueue) Push(x any) {
	p := x.(*Probe)
	p.heapIndex = len(*q)
	*q = append(*q, p)
}

func (q *probeQueue) Pop() any {
	last := len(*q) - 1
	p := (*q)[last]
	(*q)[last] = nil
	*q = (*q)[:last]
	p.heapIndex = -1
	return p
}
