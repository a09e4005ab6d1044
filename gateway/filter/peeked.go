package filter

import (
	"bytes"
	"strings"
	"sync"

	"github.com/capgate/capgate/gateway/dialect"
	"github.com/capgate/capgate/gateway/relay"
)

// Peeked are the fields of the first message that only matter while the call is decided. The slices are parts of the
// message.
type Peeked struct {
	Read       bool   // the message was read; else nothing is known of it
	Capability string // part of the message, too
	Args       []byte
	Config     []byte // secrets: looked at only where that is asked for, and never kept
	Legacy     []byte // the whole message, in the legacy dialect; a clone has Context instead
	Context    []dialect.ContextEntry
	Thread     []byte
	Artifact   []byte // that is to be downloaded
	Held       *Hold  // of a clone; nil means the fields are parts of the message
}

// peekedPool has those that no call needs now. A call has one only for a moment.
var peekedPool = sync.Pool{New: func() any { return new(Peeked) }}

// SetPeeked gives a call its peeked fields, until it waits or has its answer.
func (c *Call) SetPeeked(m *Peeked) {
	c.Peeked = peekedPool.Get().(*Peeked)
	*c.Peeked = *m
}

// Fields returns the peeked fields of a call, as far as its message was read.
func (c *Call) Fields() Peeked {
	if c.Peeked == nil {
		return Peeked{}
	}
	return *c.Peeked
}

// ForgetMessage lets go of the first message, which is part of a buffer, or of the copy that the call has of it.
func (c *Call) ForgetMessage() {
	c.Message = relay.Message{}
	m := c.Peeked
	switch c.Peeked = nil; {
	case m == nil:
	case m.Held != nil:
		m.Forget()
	default:
		*m = Peeked{}
		peekedPool.Put(m)
	}
}

// contextCost is what an entry of a context takes besides its bytes: there may be one for each four bytes of a
// message.
const contextCost = 96

// Size is how many bytes a call brings that may have to be kept until it is decided.
func (m *Peeked) Size() int {
	n := len(m.Args) + len(m.Config) + len(m.Thread)
	for _, e := range m.Entries() {
		n += contextCost + len(e.Name) + len(e.Value)
	}
	return n
}

// Entries are what a legacy context has that other dialects have no field for.
func (m *Peeked) Entries() []dialect.ContextEntry {
	if m.Legacy == nil {
		return m.Context
	}
	return dialect.LegacyContext(m.Legacy)
}

// Clone returns the same in memory of its own: the message is part of a buffer.
func (m *Peeked) Clone() Peeked {
	own := *m
	own.Capability, own.Artifact = strings.Clone(m.Capability), bytes.Clone(m.Artifact)
	own.Args, own.Config, own.Thread = bytes.Clone(m.Args), bytes.Clone(m.Config), bytes.Clone(m.Thread)
	own.Legacy, own.Context = nil, nil
	for _, e := range m.Entries() {
		own.Context = append(own.Context, dialect.ContextEntry{Name: bytes.Clone(e.Name), Value: bytes.Clone(e.Value)})
	}
	return own
}

// Wipe leaves nothing behind of what may be secret. It is for a clone.
func (m *Peeked) Wipe() {
	clear(m.Config)
	m.Config = nil
	for _, e := range m.Context {
		clear(e.Value)
	}
	m.Context = nil
}

// Forget wipes a clone and gives its memory back.
func (m *Peeked) Forget() {
	m.Held.Release()
	m.Wipe()
}
