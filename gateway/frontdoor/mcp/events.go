package mcp

import (
	"encoding/json"
	"fmt"

	"github.com/capgate/capgate/gateway/frontdoor/stream"
)

// events writes messages to the response of a request as server-sent events. It is safe for concurrent use.
type events struct{ stream.Writer }

// send writes a message.
func (e *events) send(message any) error {
	text, err := json.Marshal(message)
	if err != nil {
		return fmt.Errorf("encode a message: %w", err)
	}
	return e.Send(stream.Event("", "message", text))
}

// beat shows that the stream is alive.
func (e *events) beat() error { return e.Send([]byte(stream.Beat)) }

// part writes a part of a message, the first with the name of the event. Line ends are blanks: between values of JSON
// they mean nothing.
func (e *events) part(text []byte, first bool) error {
	for i, c := range text {
		if c == '\n' || c == '\r' {
			text[i] = ' '
		}
	}
	prefix := ""
	if first {
		prefix = "event: message\ndata: "
	}
	return e.Send(append([]byte(prefix), text...))
}

// notification is a JSON-RPC notification.
type notification struct {
	Version string `json:"jsonrpc"`
	Method  string `json:"method"`
	Params  any    `json:"params,omitempty"`
}
