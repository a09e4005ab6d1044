package router

import (
	"time"

	"github.com/capgate/capgate/health"
	"github.com/capgate/capgate/internal/call"
)

// Affinity is which calls of a fleet have to come to the same backend. The zero value
// is: none.
type Affinity struct {
	Sessions    bool          // those of one session
	SessionTTL  time.Duration // how long a session keeps its backend without a call; default 1 h
	Artifacts   bool          // those that name an artifact come to the backend that has it
	ArtifactTTL time.Duration // how long that is remembered; default 24 h
}

func (a Affinity) withDefaults() Affinity {
	if a.SessionTTL <= 0 {
		a.SessionTTL = time.Hour
	}
	if a.ArtifactTTL <= 0 {
		a.ArtifactTTL = 24 * time.Hour
	}
	return a
}

// session is one of a tenant.
type session struct{ tenant, id string }

// affinity is what a Fleet needs to find a certain backend.
type affinity struct {
	sticky   Affinity
	hash     uint64              // of the capability
	byAddr   map[string]*Backend // nil where nobody asks
	reserved map[session][]*Backend
}

// stick prepares a fleet whose backends are known.
func (f *Fleet) stick(a Affinity) {
	f.sticky, f.hash = a.withDefaults(), hashOf(f.Capability)
	if a.Sessions || a.Artifacts {
		f.byAddr = make(map[string]*Backend, len(f.Backends))
	}
	for _, b := range f.Backends {
		if f.byAddr != nil {
			f.byAddr[b.Addr] = b
		}
		if b.Session != "" {
			if f.reserved == nil {
				f.reserved = map[session][]*Backend{}
			}
			of := session{b.Tenant, b.Session}
			f.reserved[of] = append(f.reserved[of], b)
		}
	}
}

// Affinity says which calls have to come to the same backend, with all defaults filled in.
func (f *Fleet) Affinity() Affinity { return f.sticky }

// Tracks says whether it matters which backend has an artifact: not in a fleet of one.
func (f *Fleet) Tracks() bool { return f.sticky.Artifacts && len(f.Backends) > 1 }

// Heeds says whether it matters to which session a call belongs.
func (f *Fleet) Heeds() bool { return f.sticky.Sessions || f.reserved != nil }

// Reserved says whether there are backends for this session of a tenant alone. It goes only there.
func (f *Fleet) Reserved(tenant, id string) bool { return len(f.reserved[session{tenant, id}]) > 0 }

// Backend is the one with that address; nil if the fleet has none, or no affinity.
func (f *Fleet) Backend(addr string) *Backend { return f.byAddr[addr] }

// Claim takes a place at a backend of an unlimited fleet that was not chosen by Route. retry says that the
// call was counted before.
func (f *Fleet) Claim(b *Backend, retry bool) Claim {
	b.load.inFlight.Add(1)
	if !retry {
		b.load.routed.Add(1)
	}
	return Claim{load: b.load, clock: f.clock}
}

// Homeless is what calls of a session get for which nobody is there.
func (f *Fleet) Homeless(tenant, id string) *call.Refusal {
	if none := f.pick.Load().none; none != nil && !f.Reserved(tenant, id) {
		return none
	}
	return &call.Refusal{
		Kind:       call.Unavailable,
		Reason:     "NO_HEALTHY_BACKEND",
		Message:    "no healthy backend for this session of capability " + f.Capability,
		Metadata:   map[string]string{"capability": f.Capability},
		RetryAfter: retryAfter,
	}
}

// Alive is false for a backend that probes found down, unless so many of its fleet are
// that the probes are in doubt. Ejected and draining ones live.
func (b *Backend) Alive() bool { return !b.turnout.dead.Load() }

// Life numbers the lives of a backend: it is another once the backend was found gone.
// What it held in memory before is lost.
func (b *Backend) Life() uint32 { return b.turnout.life.Load() }

// Gone tells that nobody listens at the backend's address.
func (b *Backend) Gone() {
	if !b.turnout.gone.Swap(true) {
		b.turnout.ended.Store(time.Now().UnixNano())
		b.turnout.life.Add(1)
	}
}

// GoneWithin says whether the backend was found gone in the last d: state that is older is lost, though
// the backend may have come back.
func (b *Backend) GoneWithin(d time.Duration) bool {
	ended := b.turnout.ended.Load()
	return ended != 0 && time.Since(time.Unix(0, ended)) < d
}

// IsGone says that nobody listened at the backend's address when last it was looked at.
func (b *Backend) IsGone() bool { return b.turnout.gone.Load() }

// probed takes what probes say of a backend's life. The caller holds standing.mu.
func (b *Backend) probed(state *health.Backend, doubtful bool) {
	if state.Refused {
		b.Gone()
	} else if state.State == health.Up {
		b.turnout.gone.Store(false)
	}
	b.turnout.dead.Store(!state.State.Usable() && (state.Refused || !doubtful))
}
