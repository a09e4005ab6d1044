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

// spread sends responses of a client to another gateway than its requests, and before as another caller.
type spread struct {
	http.RoundTripper
	requests, responses *mcpGateway
	key, other          string       // credentials
	sent                atomic.Int32 // responses
	refused             atomic.Int32 // responses of the other caller
}

func (s *spread) RoundTrip(r *http.Request) (*http.Response, error) {
	to, body := s.requests, []byte(nil)
	if r.Body != nil {
		var err error
		if body, err = io.ReadAll(r.Body); err != nil {
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
	r.Header.Set("X-Api-Key", s.key)
	if to == s.responses {
		for _, gateway := range [...]*mcpGateway{s.requests, s.responses} {
			other := r.Clone(r.Context())
			other.Body, other.URL.Host, other.Host = io.NopCloser(bytes.NewReader(body)), gateway.gateway.Addr, ""
			other.Header.Set("X-Api-Key", s.other)
			resp, err := s.RoundTripper.RoundTrip(other)
			if err != nil {
				return nil, err
			}
			_ = resp.Body.Close()
			if resp.StatusCode == http.StatusNotFound {
				s.refused.Add(1)
			}
		}
	}
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
			var keys map[string]string
			var shared gatewaytest.Options
			a := startAsking(t, r, all, func(o *gatewaytest.Options) {
				keys = ofTwoTenants(t, o)
				shared.Authenticator = o.Authenticator
			})
			var forwarded atomic.Int32
			b := startAsking(t, r, all, func(o *gatewaytest.Options) {
				o.Authenticator = shared.Authenticator
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
				responses: b, key: keys["acme"], other: keys["globex"]}
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
			if way.refused.Load() != 6 {
				t.Errorf("%d answers of another caller were refused at two replicas", way.refused.Load())
			}
		})
	}
}
