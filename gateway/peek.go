package gateway

import (
	"github.com/capgate/capgate/gateway/dialect"
	"github.com/capgate/capgate/gateway/filter"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/strictproto"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/router"
)

// peekState is what peek remembers.
type peekState struct {
	asked   bool          // for the message
	refusal *call.Refusal // of one that was to be unpacked
}

// peek reads of the first message what the call is routed and decided by.
type peek struct {
	h    *handler
	read func(t *filter.Call, msg []byte) (filter.Peeked, *call.Refusal)
}

// Admit implements filter.Filter.
func (f peek) Admit(t *filter.Call, s *peekState) filter.Step {
	switch {
	case !s.asked:
		s.asked = true
		return filter.Read
	case t.Message.Missing:
		return t.Reject(filter.NoMessage)
	case t.Message.Compressed && f.h.named(t, keyOf(t, "")):
		return filter.Continue // it need not be unpacked
	case t.Message.Compressed:
		return f.unpack(t, s)
	case s.refusal != nil:
		return t.Reject(s.refusal)
	}
	m, refusal := f.read(t, t.Message.Data)
	if refusal != nil {
		return t.Reject(refusal)
	}
	t.SetPeeked(&m)
	return filter.Continue
}

// unpack lets the call wait until its message is there as it was before compression.
func (f peek) unpack(t *filter.Call, s *peekState) filter.Step {
	refusal := f.h.inflater.start(t, s, t.Message.Data)
	if refusal != nil {
		return t.Reject(refusal)
	}
	return filter.Wait
}

// Done implements filter.Filter.
func (peek) Done(*filter.Call, *peekState, *filter.Result) {}

// peekIf is peek for calls of which not all have a message to read.
type peekIf struct {
	peek
	wanted func(*filter.Call) bool
}

// Admit implements filter.Filter.
func (f peekIf) Admit(t *filter.Call, s *peekState) filter.Step {
	if !f.wanted(t) {
		return filter.Continue
	}
	return f.peek.Admit(t, s)
}

// await waits for the first message, which says nothing: some callers take an early answer for a broken stream.
type await struct{}

// Admit implements filter.Filter.
func (await) Admit(t *filter.Call, s *peekState) filter.Step {
	switch {
	case !s.asked:
		s.asked = true
		return filter.ReadAny
	case t.Message.Missing:
		return t.Reject(filter.NoMessage)
	}
	return filter.Continue
}

// Done implements filter.Filter.
func (await) Done(*filter.Call, *peekState, *filter.Result) {}

// readInvoke takes out of the message of a call of a tool what that is routed by.
func readInvoke(t *filter.Call, msg []byte) (m filter.Peeked, refusal *call.Refusal) {
	readKey := dialect.ReadKey
	if t.Info.Dialect == call.Legacy {
		readKey = dialect.ReadLegacyKey
	}
	key, err := readKey(msg)
	if err != nil {
		return filter.Peeked{}, strictproto.Refuse(err, filter.Malformed)
	}
	if refusal := nameUser(t, filter.View(key.User)); refusal != nil {
		return filter.Peeked{}, refusal
	}
	t.Info.Tool = t.Keep(filter.View(key.Tool))
	t.Info.Session = t.Keep(filter.View(key.Session))
	m = filter.Peeked{Read: true, Capability: filter.View(key.Capability), Args: key.Args, Config: key.Config, Thread: key.Thread}
	if t.Info.Dialect == call.Legacy {
		m.Legacy = msg
	}
	return m, nil
}

// readDownload takes out of the message of a download which artifact that is of.
func readDownload(_ *filter.Call, msg []byte) (m filter.Peeked, refusal *call.Refusal) {
	id, err := dialect.ReadArtifactID(msg)
	if err != nil {
		return filter.Peeked{}, strictproto.Refuse(err, refusedDownload)
	}
	return filter.Peeked{Artifact: id}, nil
}

// nameUser believes a message that says on whose behalf its caller calls as far as a header
// is believed that says so.
func nameUser(t *filter.Call, user string) *call.Refusal {
	if user == "" || t.Principal.Asserts&tenant.User == 0 {
		return nil
	}
	if said, _ := t.Stream.Header(userHeader); said != "" && said != user {
		return refusedTwoIdentities
	}
	_, refusal := tenant.Identity{}.Assert(tenant.Credentials{User: user}, tenant.User)
	if refusal == nil {
		t.Info.User = t.Keep(user)
	}
	return refusal
}

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
