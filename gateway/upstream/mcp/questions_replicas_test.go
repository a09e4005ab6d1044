package mcp_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/clienttest"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
)

// spread sends responses of a client to another gateway than its requests.
type spread struct {
	http.RoundTripper
	requests, responses *mcpGateway
	sent                atomic.Int32 // responses
}

func (s *spread) RoundTrip(r *http.Request) (*http.Response, error) {
	to := s.requests
	if r.Body != nil {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		r = r.Clone(r.Context())
		r.Body = io.NopCloser(bytes.NewReader(body))
		if !bytes.Contains(body, []byte(`"method"`)) {
			s.sent.Add(1)
			to = s.responses
		}
	}
	r.URL = &url.URL{Scheme: "http", Host: to.gateway.Addr, Path: r.URL.Path}
	r.Host = to.gateway.Addr
	return s.RoundTripper.RoundTrip(r)
}

// TestAnswersReachTheirReplica: the answers to questions on the stream of a call may reach another replica, which
// forwards them sealed. Nothing else answers a question: not a text that is not sealed, and not the answer of another
// caller.
func TestAnswersReachTheirReplica(t *testing.T) {
	t.Parallel()
	for server, old := range eras {
		t.Run(server, func(t *testing.T) {
			t.Parallel()
			r, all := newAsking(t, old), []string{"elicitation", "sampling", "roots"}
			a := startAsking(t, r, all)
			var forwarded atomic.Int32
			b := startAsking(t, r, all, func(o *gatewaytest.Options) {
				o.MCP.Cancel = func(_ context.Context, message string) error {
					forwarded.Add(1)
					if strings.Contains(message, "Ann") || strings.Contains(message, "hello") {
						t.Errorf("an answer is forwarded in clear: %s", message)
					}
					parts := strings.SplitN(message, "\n", 3)
					a.gateway.CancelMCP(parts[0] + "\n" + parts[1] + "\n" + `{"r":{"action":"decline"}}`)
					a.gateway.CancelMCP(parts[0] + "\nother\n" + parts[2])
					a.gateway.CancelMCP(message)
					a.gateway.CancelMCP(message) // a question has one answer
					return nil
				}
			})
			way := &spread{RoundTripper: clienttest.Bound(&http.Transport{DisableKeepAlives: true}), requests: a,
				responses: b}
			s, err := answering(func(string) {}).Connect(within(t), &sdk.StreamableClientTransport{
				Endpoint: "http://gateway/mcp", HTTPClient: &http.Client{Transport: way}, MaxRetries: -1},
				&sdk.ClientSessionOptions{ProtocolVersion: "2025-11-25"})
			check.Must(t, err)
			check.Cleanup(t, func() { _ = s.Close() })
			if text, failed := ask(t, s); failed || text != "Ann hello file:///home/ann" {
				t.Errorf("%q, %t", text, failed)
			}
			if forwarded.Load() != 3 || way.sent.Load() != 3 {
				t.Errorf("%d of %d answers were forwarded", forwarded.Load(), way.sent.Load())
			}
		})
	}
}
