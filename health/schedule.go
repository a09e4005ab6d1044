package health

import (
	"container/heap"
	"math/rand/v2"
	"time"
)

// Probe is the probing of one backend by this replica. Between Step, which hands it
// out, and Probed it belongs to whoever makes the probe.
type Probe struct {
	target *target // nil: given up
	judge  judge
	due    time.Time // when to probe next
	place  int       // in the heap; -1: not in it, a probe is under way
	spec   *Fleet    // changed while no probe is under way only
	addr   string

	slot    Slot   // in which its vote goes
	episode uint32 // of the first vote, which the second answers
	voted   bool   // something was found out since it has this slot

	client *client // the prober's
}

// Capability is whose backend is probed.
func (p *Probe) Capability() string { return p.spec.Capability }

// Addr is where the backend is, host:port.
func (p *Probe) Addr() string { return p.addr }

// Timeout bounds the probe, connecting included.
func (p *Probe) Timeout() time.Duration { return p.spec.Config.Timeout }

// schedule begins to probe t, at first when due.
func (r *Replica) schedule(t *target, due time.Time) *Probe {
	spec := t.fleet.spec
	p := &Probe{target: t, due: due, place: -1, spec: spec, addr: t.addr(), judge: judge{rise: spec.Config.Rise, fall: spec.Config.Fall}}
	t.probe = p
	heap.Push(&r.queue, p)
	return p
}

// giveUp stops probing t.
func (r *Replica) giveUp(t *target) {
	p := t.probe
	if p == nil {
		return
	}
	t.probe, p.target = nil, nil
	if p.place >= 0 {
		heap.Remove(&r.queue, p.place)
		r.given = append(r.given, p)
	}
}

// takeDue takes the probes that are to be made now, as many as may run at once.
func (r *Replica) takeDue(now time.Time) []*Probe {
	var due []*Probe
	for len(r.queue) > 0 && r.underWay < r.options.MaxConcurrent && !r.queue[0].due.After(now) {
		due = append(due, heap.Pop(&r.queue).(*Probe))
		r.underWay++
	}
	return due
}

// Probed takes the result of a probe that Step handed out.
func (r *Replica) Probed(now time.Time, p *Probe, result Result) {
	r.underWay--
	if p.target == nil {
		r.given = append(r.given, p)
		return
	}
	p.follow(p.target.fleet.spec)
	p.judge.observe(result.OK)
	p.due = now.Add(r.wait(p))
	heap.Push(&r.queue, p)
	r.learn(now, p, result)
	r.publish()
}

// Stop ends all probing, when no probe is under way any more, and returns what was
// probed.
func (r *Replica) Stop() []*Probe {
	all := append(r.given, r.queue...)
	r.given, r.queue = nil, nil
	return all
}

// follow makes the next probe be made as spec says.
func (p *Probe) follow(spec *Fleet) {
	p.spec = spec
	p.judge.rise, p.judge.fall = spec.Config.Rise, spec.Config.Fall
}

// hurry makes the next probe be made at once.
func (r *Replica) hurry(now time.Time, p *Probe) {
	if p.place >= 0 {
		p.due = now
		heap.Fix(&r.queue, p.place)
	}
}

// wait returns the time to the next probe. A failure that is not believed yet is
// looked into soon; what is watched just in case, seldom.
func (r *Replica) wait(p *Probe) time.Duration {
	c := &p.spec.Config
	d := c.Interval
	switch {
	case p.judge.streak > 0 && p.judge.state == Up:
		d /= 4
	case p.target.orphan && !r.options.Used(p.spec.Capability, p.addr):
		d = max(d, r.options.Stale/2)
	}
	return vary(d, c.Jitter)
}

// vary spreads d by up to share of it in both directions, so that the probes of
// many backends and gateways do not march in step.
func vary(d time.Duration, share float64) time.Duration {
	return d + time.Duration(float64(d)*share*(2*rand.Float64()-1))
}

// probeQueue is a heap of the probes to make, the one that is due first on top.
type probeQueue []*Probe

func (q probeQueue) Len() int           { return len(q) }
func (q probeQueue) Less(i, j int) bool { return q[i].due.Before(q[j].due) }
func (q probeQueue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].place, q[j].place = i, j
}

func (q *probeQueue) Push(x any) {
	p := x.(*Probe)
	p.place = len(*q)
	*q = append(*q, p)
}

func (q *probeQueue) Pop() any {
	last := len(*q) - 1
	p := (*q)[last]
	(*q)[last] = nil
	*q = (*q)[:last]
	p.place = -1
	return p
}
