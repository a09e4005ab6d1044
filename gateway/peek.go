package gateway

import (
	"sync"

	"github.com/capgate/capgate/gateway/dialect"
	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/strictproto"
	"github.com/capgate/capgate/internal/tenant"
)

// first is what the first message says that only matters while the call is decided.
// The slices are parts of the message.
type first struct {
	read       bool   // it was; else nothing is known of it
	capability string // part of the message, too
	args       []byte
	config     []byte // secrets: looked at only where that is asked for, and never kept
	legacy     []byte // the whole message, in the legacy dialect; a clone has context instead
	context    []dialect.ContextEntry
	thread     []byte
	artifact   []byte   // that is to be downloaded
	held       *holding // of deliberations, for a clone; nil: it is part of the message
}

// firsts are those that no call needs now. A call has one only for a moment.
var firsts = sync.Pool{New: func() any { return new(first) }}

// said is what the first message says, as far as it was read.
func (t *transit) said() first {
	if t.first == nil {
		return first{}
	}
	return *t.first
}

// forgetMessage lets go of the first message, which is part of a buffer, or of the copy that the call has of it.
func (t *transit) forgetMessage() {
	t.message = relay.Message{}
	m := t.first
	switch t.first = nil; {
	case m == nil:
	case m.held != nil:
		m.forget()
	default:
		*m = first{}
		firsts.Put(m)
	}
}

// peekState is what peek remembers.
type peekState struct {
	asked   bool          // for the message
	refusal *call.Refusal // of one that was to be unpacked
}

// peek reads of the first message what the call is routed and decided by.
type peek struct {
	h    *handler
	read func(t *transit, msg []byte) (first, *call.Refusal)
}

// Admit implements filter.
func (f peek) Admit(t *transit, s *peekState) Step {
	switch {
	case !s.asked:
		s.asked = true
		return Read
	case t.message.Missing:
		return t.reject(refusedNoMessage)
	case t.message.Compressed && f.h.named(t, t.keyOf("")):
		return Continue // it need not be unpacked
	case t.message.Compressed:
		return f.unpack(t)
	case s.refusal != nil:
		return t.reject(s.refusal)
	}
	m, refusal := f.read(t, t.message.Data)
	if refusal != nil {
		return t.reject(refusal)
	}
	t.first = firsts.Get().(*first)
	*t.first = m
	return Continue
}

// unpack lets the call wait until its message is there as it was before compression.
func (f peek) unpack(t *transit) Step {
	refusal := f.h.inflater.start(t, f.h.driver, t.message.Data)
	if refusal != nil {
		return t.reject(refusal)
	}
	return Wait
}

// Done implements filter.
func (peek) Done(*transit, *peekState, *result) {}

// await waits for the first message, which says nothing: some callers take an early answer for a broken stream.
type await struct{}

// Admit implements filter.
func (await) Admit(t *transit, s *peekState) Step {
	switch {
	case !s.asked:
		s.asked = true
		return ReadAny
	case t.message.Missing:
		return t.reject(refusedNoMessage)
	}
	return Continue
}

// Done implements filter.
func (await) Done(*transit, *peekState, *result) {}

// readInvoke takes out of the message of a call of a tool what that is routed by.
func readInvoke(t *transit, msg []byte) (m first, refusal *call.Refusal) {
	readKey := dialect.ReadKey
	if t.call.Dialect == call.Legacy {
		readKey = dialect.ReadLegacyKey
	}
	key, err := readKey(msg)
	if err != nil {
		return first{}, strictproto.Refuse(err, refusedMalformed)
	}
	if refusal := t.nameUser(t.stream, view(key.User)); refusal != nil {
		return first{}, refusal
	}
	t.call.Tool = t.keep(view(key.Tool))
	t.call.Session = t.keep(view(key.Session))
	m = first{read: true, capability: view(key.Capability), args: key.Args, config: key.Config, thread: key.Thread}
	if t.call.Dialect == call.Legacy {
		m.legacy = msg
	}
	return m, nil
}

// readDownload takes out of the message of a download which artifact that is of.
func readDownload(_ *transit, msg []byte) (m first, refusal *call.Refusal) {
	id, err := dialect.ReadArtifactID(msg)
	if err != nil {
		return first{}, strictproto.Refuse(err, refusedDownload)
	}
	return first{artifact: id}, nil
}

// nameUser believes a message that says on whose behalf its caller calls as far as a header
// is believed that says so.
func (t *transit) nameUser(s *relay.Stream, user string) *call.Refusal {
	if user == "" || t.auth.asserts&tenant.User == 0 {
		return nil
	}
	if said, _ := s.Header(userHeader); said != "" && said != user {
		return refusedTwoIdentities
	}
	_, refusal := tenant.Identity{}.Say(tenant.Claim{User: user}, tenant.User)
	if refusal == nil {
		t.call.User = t.keep(user)
	}
	return refusal
}
