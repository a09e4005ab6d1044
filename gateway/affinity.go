package gateway

import (
	"errors"
	"syscall"

	"github.com/capgate/capgate/gateway/dialect"
	"github.com/capgate/capgate/gateway/filter"
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
func (h *handler) named(t *filter.Call, k router.Key) bool {
	if t.Info.Dialect == call.Legacy && t.Principal.Asserts&tenant.User != 0 {
		return false // it may say whose call it is
	}
	if t.Principal.Only != nil {
		return false // it says whether the call is the one that may be
	}
	table := h.router.Table()
	if !table.Names(k) {
		return false
	}
	f, refusal := table.Resolve(k, t.Principal.Settings)
	return refusal != nil || !f.HasSessions() && !f.TracksArtifacts() && !t.Principal.Bound() && !h.authorize.Heeds(f.Capability)
}

// affinityState is where a call has to go.
type affinityState struct {
	asked bool // the store was, and the call's pin is its answer
}

// sticky finds the backend that the call has to go to, if there is one: that of its
// session, or of an artifact that it names. It does so at once where memory
// has the answer, as it has in the steady state.
type sticky struct{ h *handler }

// Admit implements filter.Filter.
func (f sticky) Admit(t *filter.Call, s *affinityState) filter.Step {
	if s.asked {
		s.asked = false
		return t.ContinueUnless(t.Pin.Refusal)
	}
	session := t.Info.Session
	if !t.Fleet.HasSessions() {
		session = ""
	}
	if session == "" && t.Artifacts.IDs == nil || t.Attempt.Assigned || t.Attempt.Directed != nil {
		return filter.Continue
	}
	q := affinity.Query{Fleet: t.Fleet, Tenant: t.Info.Tenant, Session: session, Artifacts: t.Artifacts.IDs, OwnedOnly: t.Principal.Bound(), Tried: t.Endpoint}
	if a, known := f.h.affinity.Lookup(&q); known {
		t.Pin = a
		return t.ContinueUnless(a.Refusal)
	}
	p := t.Park(tracing.ForSession)
	f.h.affinity.Resolve(q.Clone(), func(a affinity.Answer) {
		p.Resume(func() { t.Pin, s.asked = a, true })
	})
	return filter.Wait
}

// Done implements filter.Filter.
func (sticky) Done(t *filter.Call, _ *affinityState, r *filter.Result) {
	if r.Final && r.Forwarded > 0 {
		t.Pin.Pinned.MarkUsed()
	}
}

// readSession finds out to which session the call belongs.
func readSession(t *filter.Call) *call.Refusal {
	if !t.Fleet.HasSessions() {
		return nil
	}
	id, _ := t.Stream.Header(sessionHeader)
	if t.Principal.Only != nil {
		id = t.Principal.Only.Session
	}
	if id != "" && t.Info.Session != "" && id != t.Info.Session || t.Stream.Contradicts(sessionHeader) {
		return refusedTwoSessions
	}
	if t.Info.Session == "" {
		t.Info.Session = t.Keep(id)
	}
	if len(t.Info.Session) > maxSession {
		return refusedSession
	}
	return nil
}

// forgetSession has nobody come back to the session of a call that the gateway itself makes.
func forgetSession(t *filter.Call) { t.Info.Session = "" }

// readArtifacts finds out which artifacts the call names.
func readArtifacts(t *filter.Call) *call.Refusal {
	m := t.Fields()
	switch binds := t.Principal.Bound(); {
	case !binds && !t.Fleet.TracksArtifacts():
	case len(m.Artifact) > 0, binds && t.Info.Method == call.DownloadOutputArtifact:
		t.Artifacts.IDs = []string{string(m.Artifact)}
	case binds:
		return bindArtifacts(t, &m)
	default:
		t.Artifacts.IDs = dialect.Named(m.Args)
	}
	return nil
}

// missed takes note of a backend where nobody listens: it has ended, with all that it
// held.
func (t *callState) missed(err error) {
	if t.crossing.ticket == "" && errors.Is(err, syscall.ECONNREFUSED) {
		t.Endpoint.MarkGone()
	}
}
