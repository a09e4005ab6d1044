package gateway_test

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/capgate/capgate/gateway/frontdoor/mcp"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/clienttest"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	docpb "github.com/capgate/capgate/proto/selu/capability"
)

// endless is a capability whose responses do not end before their callers disconnect.
type endless struct {
	docpb.UnimplementedCapabilityServer
	sent  atomic.Int64 // bytes
	ended chan error
}

// StreamInvoke implements docpb.CapabilityServer.
func (e *endless) StreamInvoke(_ *docpb.InvokeRequest, s grpc.ServerStreamingServer[docpb.InvokeChunk]) error {
	piece := bytes.Repeat([]byte("x"), 16<<10)
	for s.Send(&docpb.InvokeChunk{Data: piece}) == nil {
		e.sent.Add(int64(len(piece)))
	}
	<-s.Context().Done()
	e.ended <- s.Context().Err()
	return s.Context().Err()
}

// TestMCPUnreadCallsEnd: a client that keeps its connection open and does not read gets at most what sockets
// and windows hold of an endless response. Then the call ends at its backend, and the stream at the client.
func TestMCPUnreadCallsEnd(t *testing.T) {
	t.Parallel()
	const (
		most    = 8 << 20 // bytes: a send buffer of Linux or a window of Go's client are 4 MiB
		between = 1 << 20 // bytes between backend and client
	)
	e := &endless{ended: make(chan error, 1)}
	backend := gatewaytest.Serve(t, func(s *grpc.Server) { docpb.RegisterCapabilityServer(s, e) })
	f := startMCP(t, func(o *gatewaytest.Options) {
		o.Fleets[0].Backends, o.Fleets[0].Unprobed = []string{backend.Addr}, true
		o.MCP.Stall = 200 * time.Millisecond
	})
	const meta = `"progressToken":"p"`
	for _, protocol := range protocols {
		for revision, about := range map[string]string{"2025-06-18": meta, "2026-07-28": meta +
			`,"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}`} {
			what := protocol.name + " " + revision
			e.sent.Store(0)
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, f.gateway.URL(mcp.Path),
				strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"caps__echo",`+
					`"_meta":{`+about+`}}}`))
			check.Must(t, err)
			for _, of := range [][2]string{{"Content-Type", "application/json"}, {"Mcp-Method", "tools/call"},
				{"Accept", "application/json, text/event-stream"}, {"Mcp-Protocol-Version", revision},
				{"Mcp-Name", "caps__echo"}} {
				req.Header.Set(of[0], of[1])
			}
			client := protocol.client(f.gateway, t)
			client.Timeout, client.Transport = 0, clienttest.Bound(client.Transport)
			resp, err := client.Do(req)
			check.Must(t, err)
			if ended := check.Received(t, e.ended, what+": the end of the call"); ended == nil {
				t.Errorf("%s: the call ended by itself", what)
			}
			text, err := io.ReadAll(resp.Body)
			if sent := e.sent.Load(); sent > most || sent > int64(len(text)+between) {
				t.Errorf("%s: %d bytes were taken of the backend, for a client that has %d", what, sent, len(text))
			}
			if err == nil || bytes.Contains(text, []byte(`"result"`)) ||
				!bytes.Contains(text, []byte("notifications/progress")) {
				t.Errorf("%s: the client reads %d bytes, %v", what, len(text), err)
			}
			_ = resp.Body.Close()
		}
	}
}
