package gateway

import (
	"errors"
	"slices"
	"syscall"

	"github.com/capgate/capgate/gateway/dialect"
	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/observe/tracing"
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
	if t.call.Dialect == call.Legacy && t.asserts&tenant.User != 0 {
		return false // it may say whose call it is
	}
	if t.only != nil {
		return false // it says whether the call is the one that may be
	}
	table := h.router.Table()
	if !table.Names(k) {
		return false
	}
	f, refusal := table.Resolve(k, t.settings)
	return refusal != nil || !f.Heeds() && !f.Tracks() && !t.binds() && !h.decider.Heeds(f.Capability) && !h.deliberations.shielded(f.Capability)
}

// place finds the backend that the call has to go to, if there is one: that of its
// session, or of an artifact that it names. It goes on with send, at once where memory
// has the answer, as it has in the steady state.
func (h *handler) place(s *relay.Stream, t *transit) {
	if t.own || t.assigned || !t.fleet.Heeds() && t.named == nil {
		h.send(s, t, nil)
		return
	}
	h.find(s, t)
}

// placeAgain is place for a call that did not start where it was sent.
func (h *handler) placeAgain(s *relay.Stream, t *transit) {
	if t.call.Session == "" && t.named == nil {
		h.send(s, t, nil)
		return
	}
	h.find(s, t)
}

func (h *handler) find(s *relay.Stream, t *transit) {
	q := affinity.Query{Fleet: t.fleet, Tenant: t.call.Tenant, Session: t.call.Session, Artifacts: t.named, Bound: t.binds(), Tried: t.target}
	if !t.fleet.Heeds() {
		q.Session = ""
	}
	if a, known := h.affinity.Find(&q); known {
		h.placed(s, t, a)
		return
	}
	parked := s.Park()
	t.span.Wait(tracing.ForSession)
	h.affinity.Ask(q.Own(), func(a affinity.Answer) {
		parked.Resume(func(s *relay.Stream) {
			t := transitOf(s)
			t.span.GoOn(tracing.ForSession)
			h.placed(s, t, a)
		})
	})
}

func (h *handler) placed(s *relay.Stream, t *transit, a affinity.Answer) {
	t.place = a
	h.send(s, t, a.Refusal)
}

// readPlace finds out to which session the call belongs, and which artifacts it names.
func (t *transit) readPlace(s *relay.Stream, m first) *call.Refusal {
	if t.own || t.before != nil {
		return nil
	}
	if t.ours {
		t.call.Session = "" // nobody comes back to it
		return nil
	}
	if t.fleet.Heeds() {
		id, _ := s.Header(sessionHeader)
		if t.only != nil {
			id = t.only.Session
		}
		if id != "" && t.call.Session != "" && id != t.call.Session || s.Contradicts(sessionHeader) {
			return refusedTwoSessions
		}
		if t.call.Session == "" {
			t.call.Session = t.keep(id)
		}
		if len(t.call.Session) > maxSession {
			return refusedSession
		}
	}
	return t.readArtifacts(m)
}

// binds says that the call may name no artifacts but those that its tenant uploaded or
// was told of, in whatever dialect: backends of another may get it translated.
func (t *transit) binds() bool { return t.settings != nil }

func (t *transit) readArtifacts(m first) *call.Refusal {
	switch binds := t.binds(); {
	case !binds && !t.fleet.Tracks():
	case len(m.artifact) > 0, binds && t.call.Method == call.DownloadOutputArtifact:
		t.named = []string{string(m.artifact)}
	case binds:
		return t.bindArtifacts(m)
	default:
		t.named = dialect.Named(m.args)
	}
	return nil
}

// watchArtifacts lets the response tell which artifacts its backend gives out.
func (h *handler) watchArtifacts(t *transit) {
	if !t.binds() && !t.fleet.Tracks() || !dialect.Watches(t.call.Method) {
		return
	}
	if t.mentions == nil { // it stays with the transit, for calls to come
		t.mentions = dialect.NewMentions(func(id string) { h.learn(t, id) })
	}
	t.mentions.Reset(t.call.Method)
	if t.binds() {
		t.mentions.All()
	}
	t.outcome.Watch(t.mentions)
}

// learn takes note of an artifact. What the call itself has named is no news where a
// tool repeats it.
func (h *handler) learn(t *transit, id string) {
	if !slices.Contains(t.named, id) {
		h.affinity.Learn(affinity.Mention{Fleet: t.fleet, Tenant: t.call.Tenant, ID: id, Backend: t.target,
			Sure: t.call.Method == call.UploadInputArtifact, Bound: t.binds()})
	}
}

// missed takes note of a backend where nobody listens: it has ended, with all that it
// held.
func (t *transit) missed(err error) {
	if t.ticket == "" && errors.Is(err, syscall.ECONNREFUSED) {
		t.target.Gone()
	}
}
