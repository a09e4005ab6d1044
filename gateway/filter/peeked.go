package filter

import (
	"bytes"
	"strings"
	"sync"

	"github.com/capgate/capgate/gateway/dialect"
	"github.com/capgate/capgate/gateway/relay"
)

// Peeked holds the fields of the first message that matter only while the call is decided. The slices are parts of the
// message.
type Peeked struct {
	Read       bool   // the message was read; otherwise the other fields are unknown
	Capability string // also a part of the message
	Args       []byte
	Config     []byte // secret: read only on demand, and never kept
	Legacy     []byte // the whole message in the legacy dialect; a clone has Context instead
	Context    []dialect.ContextEntry
	Thread     []byte
	Artifact   []byte // artifact to download
	Held       *Hold  // of a clone; nil means the fields are parts of the message
}

// peekedPool holds unused Peeked values. A call needs one only briefly.
var peekedPool = sync.Pool{New: func() any { return new(Peeked) }}

// SetPeeked sets the peeked fields of a call. They are valid until it waits or has its answer.
func (c *Call) SetPeeked(m *Peeked) {
	c.Peeked = peekedPool.Get().(*Peeked)
	*c.Peeked = *m
}

// Fields returns the peeked fields of a call. If its message was not read, Read is false.
func (c *Call) Fields() Peeked {
	if c.Peeked == nil {
		return Peeked{}
	}
	return *c.Peeked
}

// ForgetMessage releases the first message, which is part of a buffer, or the call's copy of it.
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

// contextCost is the memory of a context entry besides its bytes. A message may have one entry for each four bytes.
const contextCost = 96

// Size returns the number of bytes that may have to be kept until the call is decided.
func (m *Peeked) Size() int {
	n := len(m.Args) + len(m.Config) + len(m.Thread)
	for _, e := range m.Entries() {
		n += contextCost + len(e.Name) + len(e.Value)
	}
	return n
}

// Entries returns the entries of a legacy context that other dialects have no field for.
func (m *Peeked) Entries() []dialect.ContextEntry {
	if m.Legacy == nil {
		return m.Context
	}
	return dialect.LegacyContext(m.Legacy)
}

// Clone returns a copy with its own memory, which outlives the buffer of the message.
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

// Wipe clears all fields that may be secret. It must only be called on a clone.
func (m *Peeked) Wipe() {
	clear(m.Config)
	m.Config = nil
	for _, e := range m.Context {
		clear(e.Value)
	}
	m.Context = nil
}

// Forget wipes a clone and releases its memory.
func (m *Peeked) Forget() {
	m.Held.Release()
	m.Wipe()
}
