package gateway_test

import (
	"testing"
	"time"

	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/clienttest"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	"github.com/capgate/capgate/policy/approvals"
)

// TestMCPHeartbeats: a client that accepts events gets heartbeats while its request runs, in every revision and
// over both versions of HTTP. The response is then an event.
func TestMCPHeartbeats(t *testing.T) {
	t.Parallel()
	f, g := startGated(t, time.Millisecond)
	const list = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"caps__echo","another":1}}`
	calls := map[string]opens{
		"by the SDK":   rawly("POST", "/mcp", list, "Accept", bothForms),
		"events alone": mcpCall("2025-11-25", "", "text/event-stream"),
		"any text":     mcpCall("2025-11-25", "", "text/*"),
		"weights":      mcpCall("2025-11-25", "", "text/event-stream;q=0.1, application/json;q=1"),
	}
	for _, revision := range revisions {
		calls[revision] = mcpCall(revision, "", bothForms)
	}
	for _, protocol := range protocols {
		client := protocol.client(f.gateway, t)
		client.Timeout, client.Transport = 0, clienttest.Bound(client.Transport)
		for name, open := range calls {
			t.Run(protocol.name+" "+name, func(t *testing.T) {
				arrived := open(t, client, f.gateway.URL(""))
				arrived(":\n\n:\n\n")
				g.Say(t, `{"n":1}`)
				arrived(`event: message` + "\n" + `data: {"jsonrpc":"2.0","id":1,"result":{`)
				arrived(`"structuredContent":{"n":1}`)
				arrived("}\n\n")
			})
		}
	}
}

// TestMCPErrorsAfterHeartbeats: after heartbeats, an error is sent as an event, even if it would have an HTTP
// status. Clients read it like any other error.
func TestMCPErrorsAfterHeartbeats(t *testing.T) {
	t.Parallel()
	d := openDesk(t)
	f := startMCP(t, askingMCP(d, check.Patience), func(o *gatewaytest.Options) { o.MCP.Beat = time.Millisecond })
	deny := func() {
		_, err := d.Deny(t.Context(), "default", d.next(t, approvals.EventCreated).ID, approvals.Answer{By: "eve"})
		check.Must(t, err)
		d.next(t, approvals.EventDenied)
	}
	client := f.gateway.HTTP1(t)
	client.Timeout, client.Transport = 0, clienttest.Bound(client.Transport)
	for _, revision := range revisions {
		arrived := mcpCall(revision, "", bothForms)(t, client, f.gateway.URL(""))
		arrived(":\n\n")
		deny()
		arrived(`data: {"jsonrpc":"2.0","id":1,"error":{`)
		arrived(`"reason":"APPROVAL_DENIED"`)

		s, failed := f.session(t, revision, nil), make(chan error, 1)
		go func() {
			_, err := callEcho(t, s, "another of "+revision)
			failed <- err
		}()
		deny()
		if _, data := refusalOf(t, check.Received(t, failed,
			"the end of the call")); data["reason"] != "APPROVAL_DENIED" {
			t.Errorf("%s: %v", revision, data)
		}
	}
}
