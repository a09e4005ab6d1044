package overload

import "time"

// Tick is the interval at which the Shedder needs signals.
const Tick = 20 * time.Millisecond

const (
	standing  = 5   // consecutive ticks with too long delays, before the rate is cut
	cutFactor = 0.8 // new rate, as a share of the admitted rate
	growth    = 0.1 // growth of the rate in a second without delays
	idleShare = 0.5 // a demand below this share of the rate for a second is no overload
	smoothing = 0.2 // weight of a tick's demand in the average
	burst     = 0.2 // burst of a tenant, in seconds of its rate
	maxDebt   = 10. // largest debt of a tenant, in seconds of its rate

	leastBurst      = 8.0 // least burst of a tenant, in calls
	token           = 1e6 // of a call: a tick may grant less than one
	leastLimitShare = 0.1 // least share of the initially admitted rate: below it, calls are not the cause
	leastRate       = 50. // least admitted rate, in calls a second
	dropAfter       = 500 // ticks without calls after which a tenant is dropped
)

// rate is the admitted rate of work, in calls, while the process is too slow for all. As with CoDel (RFC 8289) only a
// standing delay counts.
type rate struct {
	limit    float64 // calls a second of all tenants; 0: unlimited
	floor    float64 // of limit
	began    float64 // calls a second, averaged over the last ticks
	admitted float64 // the same, and the work that tenants hold
	late     int     // consecutive ticks with too long delays
	calm     int     // consecutive ticks with far less demand than the limit
}

// Signals are the inputs of Tick.
type Signals struct {
	Delay  time.Duration // that bytes waited, because of the process's own work
	Memory int64         // live bytes; 0: not measured since the last tick
}

// Tick evaluates the demand since the last tick, and sets the limits until the next. One goroutine calls it.
func (s *Shedder) Tick(now Signals) {
	demands := s.measureDemand()
	r := &s.rate
	if s.cfg.MaxDelay > 0 {
		r.adjust(now.Delay > s.cfg.MaxDelay, total(demands))
	}
	s.distribute(demands)
	u := &Usage{Memory: s.usage.Load().Memory, Delay: ratio(now.Delay, s.cfg.MaxDelay)}
	if now.Memory > 0 {
		u.Memory = ratio(now.Memory, s.cfg.MaxMemory)
		s.adjustBounds(u.Memory)
		s.markHogs(u.Memory)
	}
	s.usage.Store(u)
	if s.ticks++; s.ticks%reportEvery == 0 && s.cfg.Log != nil {
		s.report()
	}
}

func ratio[T int64 | time.Duration](of, limit T) float64 {
	if limit <= 0 {
		return 0
	}
	return float64(of) / float64(limit)
}

// measureDemand measures each tenant's demand since the last tick, and drops tenants without any.
func (s *Shedder) measureDemand() (demands []demand) {
	var admitted, holds float64
	perSecond := 1 / Tick.Seconds()
	use := s.use.Load()
	if s.rate.limit == 0 && s.rate.late == 0 {
		use = nil // it takes time
	}
	s.each(func(tenant string, t *Share) {
		now := t.counters()
		unfinished := t.observe(use, tenant)
		began, came := now.since(t.was)
		began, came = began+t.moved, came+t.moved
		t.was = now
		admitted += began
		t.demand += smoothing * (came*perSecond - t.demand)
		if t.idle++; came > 0 {
			t.idle = 0
		}
		if t.idle > dropAfter && t.running() == 0 {
			s.shares.Delete(tenant)
			t.dropped.Store(true)
			return
		}
		holds += unfinished
		demands = append(demands, demand{t, t.demand + unfinished})
	})
	s.rate.began += smoothing * (admitted*perSecond - s.rate.began)
	s.rate.admitted = s.rate.began + holds
	return demands
}

// adjust moves the limit. brought is the demand in calls per second.
func (r *rate) adjust(late bool, brought float64) {
	if !late {
		r.late = 0
		if r.limit == 0 {
			return
		}
		r.limit *= 1 + growth*Tick.Seconds()
		if r.calm++; brought > idleShare*r.limit {
			r.calm = 0
		}
		if r.calm > int(time.Second/Tick) {
			r.limit, r.calm = 0, 0
		}
		return
	}
	if r.late++; r.late < standing {
		return
	}
	r.late, r.calm = 0, 0
	if r.limit == 0 {
		r.limit = r.admitted
		r.floor = max(leastLimitShare*r.admitted, leastRate)
	}
	r.limit = max(cutFactor*min(r.limit, r.admitted), r.floor)
}

// distribute gives each tenant the tokens of its calls until the next tick.
func (s *Shedder) distribute(demands []demand) {
	if s.rate.limit == 0 {
		s.limited.Store(false)
		return
	}
	level := waterLevel(demands, s.rate.limit)
	fresh := !s.limited.Load()
	s.newTenantTokens.Store(tokens(burst * s.rate.limit / float64(len(demands)+1)))
	for _, d := range demands {
		most, have := tokens(burst*level), d.share.tokens.Load()
		if have = max(have, -tokens(maxDebt*level)); fresh { // a tenant over its share has already had its burst
			if have = most; d.calls > level {
				have = 0
			}
		}
		d.share.tokens.Store(min(have+int64(level*Tick.Seconds()*token), most))
	}
	s.limited.Store(true)
}

// tokens returns the maximum of a tenant's tokens.
func tokens(calls float64) int64 { return int64(min(max(calls, leastBurst)*token, unbounded)) }
