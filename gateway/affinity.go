package gateway

import (
	"errors"
	"syscall"

	"github.com/capgate/capgate/gateway/dialect"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/telemetry/tracing"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/router"
	"github.com/capgate/capgate/router/affinity"
)

// sessionHeader names the session of a call whose message does not.
const sessionHeader = "x-session-id"

// maxSession is the longest id of a session that a fleet with affinity takes, in bytes.
const maxSession = 512

// named says that the first message of a call has nothing to go by: its capability is named
// elsewhere, its fleet does not care for sessions or artifacts, nor policy for its tool.
func (h *handler) named(t *transit, k router.Key) bool {
	if t.call.Dialect == call.Legacy && t.auth.asserts&tenant.User != 0 {
		return false // it may say whose call it is
	}
	if t.auth.only != nil {
		return false // it says whether the call is the one that may be
	}
	table := h.router.Table()
	if !table.Names(k) {
		return false
	}
	f, refusal := table.Resolve(k, t.settings)
	return refusal != nil || !f.Heeds() && !f.Tracks() && !t.binds() && !h.decider.Heeds(f.Capability) && !h.deliberations.shielded(f.Capability)
}

// affinityState is where a call has to go.
type affinityState struct {
	place   affinity.Answer
	asked   bool     // the store was, and place is its answer
	named   []string // the artifacts that the call names
	unnamed bool     // they are not known yet: what it brings takes long to read
}

// sticky finds the backend that the call has to go to, if there is one: that of its
// session, or of an artifact that it names. It does so at once where memory
// has the answer, as it has in the steady state.
type sticky struct{ h *handler }

// Admit implements filter.
func (f sticky) Admit(t *transit, s *affinityState) Step {
	if s.asked {
		s.asked = false
		return t.admitUnless(s.place.Refusal)
	}
	session := t.call.Session
	if !t.fleet.Heeds() {
		session = ""
	}
	if session == "" && s.named == nil || t.pick.assigned || t.pick.suited != nil {
		return Continue
	}
	q := affinity.Query{Fleet: t.fleet, Tenant: t.call.Tenant, Session: session, Artifacts: s.named, Bound: t.binds(), Tried: t.target}
	if a, known := f.h.affinity.Find(&q); known {
		s.place = a
		return t.admitUnless(a.Refusal)
	}
	p := f.h.driver.park(t, tracing.ForSession)
	f.h.affinity.Ask(q.Own(), func(a affinity.Answer) {
		p.Resume(func(t *transit) { t.affinity.place, t.affinity.asked = a, true })
	})
	return Wait
}

// Done implements filter.
func (sticky) Done(t *transit, s *affinityState, r *result) {
	if r.Final && r.Forwarded > 0 {
		s.place.Pinned.Used()
	}
}

// readSession finds out to which session the call belongs.
func (t *transit) readSession() *call.Refusal {
	if !t.fleet.Heeds() {
		return nil
	}
	id, _ := t.stream.Header(sessionHeader)
	if t.auth.only != nil {
		id = t.auth.only.Session
	}
	if id != "" && t.call.Session != "" && id != t.call.Session || t.stream.Contradicts(sessionHeader) {
		return refusedTwoSessions
	}
	if t.call.Session == "" {
		t.call.Session = t.keep(id)
	}
	if len(t.call.Session) > maxSession {
		return refusedSession
	}
	return nil
}

// forgetSession has nobody come back to the session of a call that the gateway itself makes.
func (t *transit) forgetSession() { t.call.Session = "" }

// binds says that the call may name no artifacts but those that its tenant uploaded or
// was told of, in whatever dialect: backends of another may get it translated.
func (t *transit) binds() bool { return t.settings != nil }

// readArtifacts finds out which artifacts the call names.
func (t *transit) readArtifacts() *call.Refusal {
	m := t.said()
	switch binds := t.binds(); {
	case !binds && !t.fleet.Tracks():
	case len(m.artifact) > 0, binds && t.call.Method == call.DownloadOutputArtifact:
		t.affinity.named = []string{string(m.artifact)}
	case binds:
		return t.bindArtifacts(m)
	default:
		t.affinity.named = dialect.Named(m.args)
	}
	return nil
}

// missed takes note of a backend where nobody listens: it has ended, with all that it
// held.
func (t *transit) missed(err error) {
	if t.crossing.ticket == "" && errors.Is(err, syscall.ECONNREFUSED) {
		t.target.Gone()
	}
}
