package gateway

import (
	"bytes"
	"strings"

	"github.com/capgate/capgate/gateway/dialect"
)

// size is how many bytes a call brings that may have to be kept until it is decided.
func (m *first) size() int {
	n := len(m.args) + len(m.config) + len(m.thread)
	for _, e := range m.entries() {
		n += contextCost + len(e.Name) + len(e.Value)
	}
	return n
}

// contextCost is what an entry of a context takes besides its bytes: there may be one for each four bytes of a message.
const contextCost = 96

// entries are what a legacy context has that others have no field for.
func (m *first) entries() []dialect.ContextEntry {
	if m.legacy == nil {
		return m.context
	}
	return dialect.LegacyContext(m.legacy)
}

// clone is the same in memory of its own: the message is part of a buffer.
func (m *first) clone() first {
	own := *m
	own.capability, own.artifact = strings.Clone(m.capability), bytes.Clone(m.artifact)
	own.args, own.config, own.thread = bytes.Clone(m.args), bytes.Clone(m.config), bytes.Clone(m.thread)
	own.legacy, own.context = nil, nil
	for _, e := range m.entries() {
		own.context = append(own.context, dialect.ContextEntry{Name: bytes.Clone(e.Name), Value: bytes.Clone(e.Value)})
	}
	return own
}

// wipe leaves nothing behind of what may be secret. It is for a clone.
func (m *first) wipe() {
	clear(m.config)
	m.config = nil
	for _, e := range m.context {
		clear(e.Value)
	}
	m.context = nil
}
