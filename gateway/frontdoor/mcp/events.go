package mcp

import (
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
)

// events writes messages to the response of a request as server-sent events (WHATWG HTML §9.2). It is safe for
// concurrent use.
type events struct {
	mu  sync.Mutex
	out http.ResponseWriter
}

// send writes a message. It waits for a client that reads slowly.
func (e *events) send(message any) error {
	text, err := json.Marshal(message)
	if err != nil {
		return fmt.Errorf("encode a message: %w", err)
	}
	return e.write("event: message\ndata: " + string(text) + "\n\n")
}

// beat writes a comment, for those between client and gateway to see that the stream is alive.
func (e *events) beat() error { return e.write(":\n\n") }

func (e *events) write(text string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if _, err := e.out.Write([]byte(text)); err != nil {
		return fmt.Errorf("write an event: %w", err)
	}
	if err := http.NewResponseController(e.out).Flush(); err != nil {
		return fmt.Errorf("write an event: %w", err)
	}
	return nil
}

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
	return e.write(prefix + string(text))
}

// notification is a JSON-RPC notification.
type notification struct {
	Version string `json:"jsonrpc"`
	Method  string `json:"method"`
	Params  any    `json:"params,omitempty"`
}
