package overload

import "time"

// Tick is how often the Shedder is to be told of its surroundings.
const Tick = 20 * time.Millisecond

const (
	standing = 5   // ticks all through which bytes have to wait too long, before the rate is cut
	cut      = 0.8 // of what was admitted a second while they did
	growth   = 0.1 // how much of itself the rate grows by in a second in which they do not
	slack    = 0.5 // what brings less than this share of the rate for a second is no overload
	smooth   = 0.2 // how much of the demand of a tick goes into the average
	burst    = 0.2 // seconds of its rate that a tenant may bring at once

	leastBurst = 8.0 // calls that a tenant may bring at once, however small its rate
	token      = 1e6 // of a call: a tick may bring less than one
	deepest    = 0.1 // of what was admitted a second when it began: if that does not help, it is not the calls
	leastRate  = 50. // calls a second that are admitted, however long bytes wait
	forgotten  = 500 // ticks without calls until a tenant is forgotten
)

// rate is how many calls a second are admitted while the process is too slow for all. As
// with CoDel (RFC 8289) a delay counts when it does not go away.
type rate struct {
	limit    float64 // calls a second of all tenants; 0: any
	floor    float64 // of limit
	admitted float64 // calls a second, on average over the last ticks
	late     int     // ticks in a row in which bytes waited too long
	calm     int     // ticks in a row in which far less came than may
}

// Signals are what Tick has to know.
type Signals struct {
	Delay  time.Duration // that bytes waited for their turn just now, because of the process's own work
	Memory int64         // bytes that live; 0: nobody looked since the last tick
}

// Tick looks at what came since the last one, and sets what may come until the next. It is
// for one goroutine.
func (s *Shedder) Tick(now Signals) {
	demands := s.count()
	r := &s.rate
	if s.cfg.MaxDelay > 0 {
		r.adjust(now.Delay > s.cfg.MaxDelay, total(demands))
	}
	s.deal(demands)
	u := &Usage{Memory: s.usage.Load().Memory, Delay: part(now.Delay, s.cfg.MaxDelay)}
	if now.Memory > 0 {
		u.Memory = part(now.Memory, s.cfg.MaxMemory)
		s.squeeze(u.Memory)
	}
	s.usage.Store(u)
}

func part[T int64 | time.Duration](of, limit T) float64 {
	if limit <= 0 {
		return 0
	}
	return float64(of) / float64(limit)
}

// count learns what each tenant brought since the last tick, and forgets who brings nothing
// any more.
func (s *Shedder) count() (demands []demand) {
	var admitted float64
	perSecond := 1 / Tick.Seconds()
	s.each(func(tenant string, t *Share) {
		started, refused := t.started.Load(), t.refused.Load()
		came := started - t.wasStarted
		admitted += float64(came)
		came += refused - t.wasRefused
		t.wasStarted, t.wasRefused = started, refused
		t.demand += smooth * (float64(came)*perSecond - t.demand)
		if t.idle++; came > 0 {
			t.idle = 0
		}
		if t.idle > forgotten && t.running() == 0 {
			s.shares.Delete(tenant)
			return
		}
		demands = append(demands, demand{t, t.demand})
	})
	s.rate.admitted += smooth * (admitted*perSecond - s.rate.admitted)
	return demands
}

// adjust moves the limit. brought is how many calls a second come.
func (r *rate) adjust(late bool, brought float64) {
	if !late {
		r.late = 0
		if r.limit == 0 {
			return
		}
		r.limit *= 1 + growth*Tick.Seconds()
		if r.calm++; brought > slack*r.limit {
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
		r.floor = max(deepest*r.admitted, leastRate)
	}
	r.limit = max(cut*min(r.limit, r.admitted), r.floor)
}

// deal gives each tenant the calls that it may begin until the next tick.
func (s *Shedder) deal(demands []demand) {
	if s.rate.limit == 0 {
		s.limited.Store(false)
		return
	}
	level := waterLevel(demands, s.rate.limit)
	fresh := !s.limited.Load()
	s.welcome.Store(tokens(burst * s.rate.limit / float64(len(demands)+1)))
	for _, d := range demands {
		most, have := tokens(burst*level), d.share.tokens.Load()
		if fresh { // who is above its share has had what it may bring at once
			if have = most; d.calls > level {
				have = 0
			}
		}
		d.share.tokens.Store(min(have+int64(level*Tick.Seconds()*token), most))
	}
	s.limited.Store(true)
}

// tokens are what a tenant has at the most.
func tokens(calls float64) int64 { return int64(min(max(calls, leastBurst)*token, unbounded)) }
