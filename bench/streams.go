package main

import (
	"errors"
	"fmt"
	"net"

	"github.com/capgate/capgate/bench/h2"
	"github.com/capgate/capgate/bench/peers"
)

// Goals for the memory of a waiting stream, in bytes.
const (
	streamGoal   = 1 << 10
	listenerGoal = 4 << 10
)

// waits is a kind of stream that waits after its start.
type waits string

const (
	noneWait  waits = ""
	callsWait waits = "calls" // streaming calls of gRPC, after their first message
	listWait  waits = "lists" // MCP subscriptions to the list of tools
)

// request returns the headers and the body of such a stream.
func (w waits) request(p *peers.Peer, s *h2.Session) (fields []int, body h2.Body) {
	field := func(name, value string) { fields = append(fields, s.Field(name, value)) }
	field(":method", "POST")
	field(":scheme", "http")
	switch w {
	case callsWait:
		field(":path", h2.PathStream)
		field(":authority", p.Addr.String())
		field("content-type", "application/grpc")
		field("te", "trailers")
		work := h2.Work{Kind: h2.IdleWork, Count: 1, Size: chunkSize}
		body = h2.Body{Msg: h2.InvokeRequest(work, "weather", "bench-session-1", chunkSize), Count: 1}
	case listWait:
		const revision, method = "2026-07-28", "subscriptions/listen"
		field(":path", "/mcp")
		field(":authority", p.Addr.String())
		field("content-type", "application/json")
		field("accept", "application/json, text/event-stream")
		field("mcp-protocol-version", revision)
		field("mcp-method", method)
		body = h2.Body{Count: 1, Msg: fmt.Appendf(nil, `{"jsonrpc":"2.0","id":1,"method":%q,"params":{"_meta":{`+
			`"io.modelcontextprotocol/protocolVersion":%q,"io.modelcontextprotocol/clientCapabilities":{}},`+
			`"notifications":{"toolsListChanged":true}}}`, method, revision)}
	}
	if p.Spec.Key != "" {
		field("authorization", "Bearer "+p.Spec.Key)
	}
	return fields, body
}

// openStreams opens waiting streams and returns when each has received its first bytes.
func openStreams(c net.Conn, p *peers.Peer, u *connUser, kind idleConns) error {
	fields, body := kind.waits.request(p, u.session)
	timeout := ""
	if kind.waits == callsWait {
		timeout = "3600S"
	}
	const atOnce = 50 // more would measure buffers that grew for the burst
	for opened := 0; opened < kind.each; {
		for range min(atOnce, kind.each-opened) {
			u.session.Open(fields, timeout, body)
			opened++
		}
		if err := u.until(func() bool { return u.begun >= opened || u.ended > 0 }); err != nil {
			return err
		}
		if u.ended > 0 {
			return errors.Join(errors.New("a stream ended"), u.failed)
		}
	}
	return errors.Join(u.failed, u.flush())
}
