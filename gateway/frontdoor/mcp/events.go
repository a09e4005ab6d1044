package mcp

import (
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/capgate/capgate/gateway/frontdoor/stream"
	"github.com/capgate/capgate/internal/lib/plainjson"
)

// events writes messages to the response of a request as server-sent events. It is safe for concurrent use.
type events struct{ stream.Writer }

// eventsTo returns the events of a response, which starts with the first event.
func eventsTo(out http.ResponseWriter) *events { return new(events).to(out) }

// to makes e the events of a response.
func (e *events) to(out http.ResponseWriter) *events {
	e.Out, e.Type, e.Cache = out, stream.Events, notCached[0]
	return e
}

// send writes a message.
func (e *events) send(message any) error {
	text, err := plainjson.Marshal(message) // escapes would be longer than what was charged
	if err != nil {
		return fmt.Errorf("encode a message: %w", err)
	}
	return e.text(text)
}

// text writes a message in JSON, which it may modify.
func (e *events) text(message []byte) error {
	return e.Send(stream.Event("", "message", oneLine(message)))
}

// part writes a part of a message, which it may modify; the first part with the name of the event.
func (e *events) part(text []byte, first bool) error {
	prefix := ""
	if first {
		prefix = eventHead
	}
	return e.Send(append([]byte(prefix), oneLine(text)...))
}

// oneLine replaces line breaks with blanks. Between JSON values they have no meaning.
func oneLine(text []byte) []byte {
	for i, c := range text {
		if c == '\n' || c == '\r' {
			text[i] = ' '
		}
	}
	return text
}

// heartbeat periodically sends comments on the events of a response, so that proxies do not consider the connection
// dead. The first comment starts the response, unless it has started.
type heartbeat struct {
	to    *events
	every time.Duration
	leave func() // called if the client reads nothing

	mu    sync.Mutex // held while a comment is sent
	over  bool
	late  bool // a comment was due when it stopped, and its goroutine may still wait for mu
	timer *time.Timer
}

// keepAlive starts the heartbeats of a response. The caller must call stop before the handler of the request returns.
func keepAlive(to *events, every time.Duration, leave func()) *heartbeat {
	return new(heartbeat).start(to, every, leave)
}

// start is keepAlive in the memory of b, which is new or the result of again.
func (b *heartbeat) start(to *events, every time.Duration, leave func()) *heartbeat {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.to, b.every, b.leave, b.over = to, every, leave, false
	if b.timer == nil {
		b.timer = time.AfterFunc(every, b.beat)
	} else {
		b.timer.Reset(every)
	}
	return b
}

// again returns heartbeats for another response: b with its timer, if it has stopped for good.
func (b *heartbeat) again() *heartbeat {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.late {
		return new(heartbeat)
	}
	b.to, b.leave = nil, nil
	return b
}

func (b *heartbeat) beat() {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.over:
	case b.to.Beat() != nil:
		b.over = true
		b.leave()
	default:
		b.timer.Reset(b.every)
	}
}

// stop ends the heartbeats, and waits for one in progress. Afterwards, only the caller can start the events. A nil
// heartbeat does nothing.
func (b *heartbeat) stop() {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.over {
		b.over, b.late = true, !b.timer.Stop()
	}
}

// notification is a JSON-RPC notification.
type notification struct {
	Version string `json:"jsonrpc"`
	Method  string `json:"method"`
	Params  any    `json:"params,omitempty"`
}
