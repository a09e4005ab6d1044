package mcp_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/capgate/capgate/gateway/frontdoor/mcp"
	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/testkit/check"
	docpb "github.com/capgate/capgate/proto/selu/capability"
)

const accepts = "application/json, text/event-stream"

// TestUnreadHeartbeats: a client that reads no heartbeats ends its request, as it would on a stream.
func TestUnreadHeartbeats(t *testing.T) {
	t.Parallel()
	const never = 10 * time.Minute
	echo := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"caps__echo"`
	for name, body := range map[string]string{"a call": echo + `}}`, "by the SDK": echo + `,"another":1}}`,
		"a batch": `[` + echo + `}}]`} {
		check.Bubble(t, func(t *testing.T) {
			a := newAsking(t)
			ended := false
			a.Handler = mcp.New(mcp.Config{Conn: a, Catalog: a, Authenticate: allowed, Invokes: allowed, Lists: allowed,
				Unary: func(ctx context.Context, _ *relay.Request, _ []byte, r *relay.Response) {
					<-ctx.Done()
					ended = true
					r.Status = relay.Status{Code: uint32(codes.Canceled), Message: "the client has left"}
				}})
			begun := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), never)
			defer cancel()
			w := &unread{ResponseRecorder: httptest.NewRecorder(), room: 10, until: begun.Add(never)}
			a.ServeHTTP(w, a.request(http.MethodPost, body, "Accept", accepts).WithContext(ctx))
			if lasted := time.Since(begun); !ended || lasted < time.Minute || lasted > never/2 {
				t.Errorf("%s: the call ended %v, after %v", name, ended, lasted)
			}
		})
	}
}

// TestFormsOfLongCalls: the response to a call that takes long is events for clients that name them, and JSON for
// others, which may not read events. Clients that accept events alone get them from quick calls too.
func TestFormsOfLongCalls(t *testing.T) {
	t.Parallel()
	for header, form := range map[string]string{"": "application/json", "*/*": "application/json",
		"application/json": "application/json", "application/json, text/event-stream;q=0": "application/json",
		"application/*, text/*": "application/json", accepts: "text/event-stream",
		"text/event-stream": "text/event-stream", "text/*": "text/event-stream",
		"application/json;q=1, text/event-stream;q=0.1": "text/event-stream"} {
		for _, takes := range []time.Duration{0, time.Minute} {
			check.Bubble(t, func(t *testing.T) {
				a := newAsking(t)
				a.Handler = mcp.New(mcp.Config{Conn: a, Catalog: a, Authenticate: allowed, Invokes: allowed,
					Lists: allowed, Unary: func(_ context.Context, _ *relay.Request, _ []byte, r *relay.Response) {
						<-time.After(takes + time.Millisecond)
						r.Message, _ = proto.Marshal(&docpb.InvokeResponse{ResultJson: []byte(`{}`)})
					}})
				w := a.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"caps__echo"}}`, "Accept",
					header)
				want := form
				if takes == 0 && strings.Contains(header, "application/json") {
					want = "application/json"
				}
				beats := 0
				if takes > 0 && want == "text/event-stream" {
					beats = 6 // in a minute
				}
				body := w.Body.String()
				if got := w.Header().Get("Content-Type"); got != want || strings.Count(body, ":\n\n") != beats ||
					strings.Count(body, `"result"`) != 1 {
					t.Errorf("%q, %v: %s %q", header, takes, got, body)
				}
			})
		}
	}
}

// TestChallengesPrecedeHeartbeats: a request without a credential or a scope has its status, however long that takes.
func TestChallengesPrecedeHeartbeats(t *testing.T) {
	t.Parallel()
	slowly := func(code codes.Code) func(*http.Request) error {
		return func(*http.Request) error {
			<-time.After(time.Minute)
			return grpcstatus.Error(code, "no")
		}
	}
	for name, c := range map[string]struct {
		authenticate, invokes func(*http.Request) error
		status                int
	}{
		"no credential": {slowly(codes.Unauthenticated), allowed, http.StatusUnauthorized},
		"no scope":      {allowed, slowly(codes.PermissionDenied), http.StatusForbidden},
	} {
		check.Bubble(t, func(t *testing.T) {
			a := newAsking(t)
			a.Handler = mcp.New(mcp.Config{Conn: a, Unary: a.call, Catalog: a, Authenticate: c.authenticate,
				Invokes: c.invokes, Lists: allowed})
			w := a.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"caps__echo"}}`, "Accept",
				accepts)
			if w.Code != c.status || !strings.HasPrefix(w.Body.String(), `{"jsonrpc":`) {
				t.Errorf("%s: %d %s", name, w.Code, w.Body)
			}
		})
	}
}
