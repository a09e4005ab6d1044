package router

import (
	"cmp"
	"time"

	"github.com/capgate/capgate/health"
	"github.com/capgate/capgate/internal/call"
)

// Affinity says which calls of a fleet must reach the same backend. The zero value is no affinity.
type Affinity struct {
	// session: calls of one session go to one backend, while it lives; none: they go to any. Default session for the
	// class environment, else none.
	Sessions bool `yaml:"affinity" enum:"none,session"`
	// Time after which a session without calls loses its backend. Default 1h, and 720h with protocol: openparallax.
	SessionTTL time.Duration `yaml:"session_ttl" min:"10s" max:"720h" default:"1h"`
	// shared: backends share their files, so that calls that name one go to any; own: they go to the backend with the
	// file.
	Artifacts bool `yaml:"artifacts" enum:"own,shared" true:"own" default:"own"`
	// Time for which the backend and the owner of a file are remembered.
	ArtifactTTL time.Duration `yaml:"artifact_ttl" min:"10s" max:"720h" default:"24h"`
	// Durable is true if a backend that restarts still has its sessions, so that none is lost while it is away. Durable
	// protocols imply it.
	Durable bool `yaml:"-"`
}

func (a Affinity) withDefaults() Affinity {
	of := defaults().Affinity
	a.SessionTTL, a.ArtifactTTL = cmp.Or(a.SessionTTL, of.SessionTTL), cmp.Or(a.ArtifactTTL, of.ArtifactTTL)
	return a
}

// session identifies a session of a tenant.
type session struct{ tenant, id string }

// affinity is the part of a Fleet that finds a specific backend.
type affinity struct {
	sticky   Affinity
	hash     uint64              // of the capability
	byAddr   map[string]*Backend // nil without affinity
	reserved map[session][]*Backend
}

// setAffinity sets up the affinity of a fleet with known backends.
func (f *Fleet) setAffinity(a Affinity) {
	f.sticky, f.hash = a.withDefaults(), hashOf(f.Capability)
	f.sticky.Durable = a.Durable || f.Protocol().Traits().Durable
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

// Affinity returns the fleet's affinity, with all defaults filled in.
func (f *Fleet) Affinity() Affinity { return f.sticky }

// TracksArtifacts reports whether artifacts determine the backend: not in a fleet of one.
func (f *Fleet) TracksArtifacts() bool { return f.sticky.Artifacts && len(f.Backends) > 1 }

// HasSessions reports whether a call's session matters.
func (f *Fleet) HasSessions() bool { return f.sticky.Sessions || f.reserved != nil }

// Reserved reports whether backends are reserved for this session of a tenant, which then uses no
// others.
func (f *Fleet) Reserved(tenant, id string) bool { return len(f.reservedFor(tenant, id)) > 0 }

func (f *Fleet) reservedFor(tenant, id string) []*Backend { return f.reserved[session{tenant, id}] }

// Backend returns the backend with an address; nil if the fleet has none, or no affinity.
func (f *Fleet) Backend(addr string) *Backend { return f.byAddr[addr] }

// Acquire takes a permit of a backend of an unlimited fleet that was not chosen by Route. With
// retry, the call was counted before.
func (f *Fleet) Acquire(b *Backend, retry bool) Permit {
	b.load.inFlight.Add(1)
	if !retry {
		b.load.routed.Add(1)
	}
	return Permit{load: b.load}
}

// NoHome returns the refusal of a session's calls when no backend can take them.
func (f *Fleet) NoHome(tenant, id string) *call.Refusal {
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

// Alive reports false for a backend that is down according to probes, unless so many of its fleet are
// that the probes are in doubt. Ejected and draining backends are alive.
func (b *Backend) Alive() bool { return !b.availability.dead.Load() }

// Incarnation returns how often the backend was found gone. A new incarnation has lost the memory
// of the previous one.
func (b *Backend) Incarnation() uint32 { return b.availability.incarnation.Load() }

// MarkGone records that the backend's port is closed.
func (b *Backend) MarkGone() {
	if !b.availability.gone.Swap(true) {
		b.availability.goneAt.Store(time.Now().UnixNano())
		b.availability.incarnation.Add(1)
	}
}

// GoneWithin reports whether the backend was found gone in the last d. Older state is lost, though
// the backend may have come back.
func (b *Backend) GoneWithin(d time.Duration) bool {
	ended := b.availability.goneAt.Load()
	return ended != 0 && time.Since(time.Unix(0, ended)) < d
}

// IsGone reports whether the backend's port was closed at the last attempt.
func (b *Backend) IsGone() bool { return b.availability.gone.Load() }

// onProbe takes a probe's result. The caller holds state.mu.
func (b *Backend) onProbe(state *health.Backend, doubtful bool) {
	if state.Refused {
		b.MarkGone()
	} else if state.State == health.Up {
		b.availability.gone.Store(false)
	}
	b.availability.dead.Store(!state.State.Usable() && (state.Refused || !doubtful))
}
