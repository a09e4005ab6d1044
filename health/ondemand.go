package health

import "time"

// Limits of probes before their interval is over: a backend that does not run yet, or for which calls wait, is probed
// again after a backoff that doubles from minBackoff.
const (
	minBackoff   = 100 * time.Millisecond
	maxWantedGap = 500 * time.Millisecond // between two probes while calls wait; the shortest wait includes one
	wantedFor    = time.Second            // how long a call waits, at least; see Config.WaitForReady

	maxEarly        = 200  // a second: backends that do not run yet
	maxWantedProbes = 500  // a second: backends for which calls wait
	maxExpedited    = 16   // backends of one fleet at one time
	maxWanted       = 1024 // fleets at one time
)

// Expedite makes the probes of a fleet due early, because calls wait for one of its backends. It includes backends of
// other replicas until their owner finds them Up or no call waits; an isolated replica takes them over. Backends that
// are Up are left out.
func (r *Replica) Expedite(now time.Time, capability string) {
	f := r.fleets[capability]
	if f == nil {
		return
	}
	f.wantedUntil = now.Add(max(f.spec.Config.WaitForReady, wantedFor))
	left := maxExpedited
	for range f.endpoints {
		ep := f.endpoints[f.nextWanted%len(f.endpoints)]
		f.nextWanted = (f.nextWanted + 1) % len(f.endpoints)
		if ep.backend().State == Up {
			continue
		}
		r.expedite(now, ep)
		if left--; left == 0 {
			return
		}
	}
}

// expedite makes the next probe of ep due as soon as its backoff permits.
func (r *Replica) expedite(now time.Time, ep *endpoint) {
	if _, probed := r.duty(ep); !probed && !ep.wanted {
		ep.wanted = true
		r.assign(now, ep)
	}
	p := ep.probe
	if p == nil {
		return
	}
	due := p.ended.Add(min(p.backoff, maxWantedGap))
	if due.Before(now) {
		due = now
	}
	if due.Before(p.due) && r.wantedProbes.Take(now) == 0 {
		r.probeAt(p, due)
	}
}

// onDemand takes the result of a probe for calls that wait here. A good one counts here at once, and until the owner of
// the backend agrees or later probes are bad.
func (r *Replica) onDemand(now time.Time, p *Probe, result Result) {
	ep := p.endpoint
	if p.threshold.state == Up {
		ep.reached = &Observation{State: Up, Dialect: uint8(result.Dialect), Reason: result.Reason}
	} else {
		ep.reached = nil
	}
	if ep.reached == nil && !now.Before(ep.fleet.wantedUntil) {
		r.endDemand(now, ep)
	}
	r.updateState(now, ep, true)
}

// endDemand ends the probing of ep on demand.
func (r *Replica) endDemand(now time.Time, ep *endpoint) {
	ep.wanted, ep.reached = false, nil
	r.assign(now, ep)
}
