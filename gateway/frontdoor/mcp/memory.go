package mcp

import (
	"sync"

	"github.com/capgate/capgate/gateway/relay"
	docpb "github.com/capgate/capgate/proto/selu/capability"
)

// memory holds the reusable buffers of a call.
type memory struct {
	body     []byte // of the request
	call     directCall
	kept     bool       // a conversation has the call, and may use it after its end
	result   callResult // of the call, unless it has another one
	alive    *heartbeat
	request  relay.Request
	message  []byte // to the gateway
	response relay.Response
	reply    docpb.InvokeResponse
	answer   writer // to the client
}

// memories is a pool of memory. Timers in it must not leave a test's bubble, so each Handler has its own.
type memories struct{ pool sync.Pool }

func (p *memories) take() *memory {
	if m, ok := p.pool.Get().(*memory); ok {
		return m
	}
	return &memory{alive: new(heartbeat)}
}

// maxRetained is the maximum size of buffers in the pool, in bytes.
const maxRetained = 64 << 10

// put clears the memory and returns it to the pool. Nothing may use it any more: neither a heartbeat, nor a goroutine
// of a call that has panicked.
func (p *memories) put(m *memory) {
	if m.kept || max(cap(m.body), cap(m.message), cap(m.answer.text)) > maxRetained {
		return
	}
	clear(m.body)
	clear(m.message)
	clear(m.answer.text)
	m.request, m.body, m.message = relay.Request{}, m.body[:0], m.message[:0]
	m.answer = writer{text: m.answer.text[:0]}
	m.call, m.result = directCall{}, callResult{}
	m.response.Reset(maxRetained)
	m.reply.Reset()
	m.alive = m.alive.again()
	p.pool.Put(m)
}

// heartbeat returns the heartbeats of the message, which have not started.
func (m *message) heartbeat() *heartbeat {
	if m.memory == nil {
		return new(heartbeat)
	}
	return m.memory.alive
}

// directCall returns the memory for the call of the message.
func (m *message) directCall() *directCall {
	if m.memory == nil || m.call != nil {
		return new(directCall)
	}
	return &m.memory.call
}

// emptyResult returns the memory for the result of a call. m may be nil.
func (m *memory) emptyResult() *callResult {
	if m == nil {
		return new(callResult)
	}
	return &m.result
}

// invocation returns the call of the message, without content.
func (m *message) invocation() *invocation {
	if m.call == nil {
		return new(invocation)
	}
	return &m.call.invocation
}
