package gateway_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/capgate/capgate/health"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	docpb "github.com/capgate/capgate/proto/selu/capability"
	"github.com/capgate/capgate/router"
)

var sticky = router.Affinity{Sessions: true, Artifacts: true}

// room is a capability with state, on several backends.
type room struct {
	all      []*gatewaytest.Capability
	backends []*gatewaytest.Backend
	addrs    []string
	stopped  int // connections
}

func newRoom(t *testing.T, n int, d call.Dialect) *room {
	t.Helper()
	r := &room{}
	for i := range n {
		c := gatewaytest.NewCapability(fmt.Sprint("b", i))
		b := c.Serve(t, d)
		r.all, r.backends, r.addrs = append(r.all, c), append(r.backends, b), append(r.addrs, b.Addr)
	}
	return r
}

// fleet returns all of them as the capability "caps", which is not probed.
func (r *room) fleet(d call.Dialect) gatewaytest.Fleet {
	return gatewaytest.Fleet{Capability: "caps", Backends: r.addrs, Dialect: d, Unprobed: true, Affinity: sticky}
}

// stop stops the backend with a name.
func (r *room) stop(name string) {
	for i, c := range r.all {
		if c.Name == name {
			r.backends[i].Stop()
			r.stopped += r.backends[i].Accepted()
		}
	}
}

// inSession makes one call of a session, and returns the backend that served it.
func inSession(ctx context.Context, c gatewaytest.Client, session string) (served string, err error) {
	req := request(gatewaytest.Echo, `{}`)
	req.SessionId = session
	return servedBy(ctx, c, req)
}

// inSession makes one call of a session after backends have stopped. A call that meets a connection that is
// just ending is repeated, at most once per stopped connection.
func (r *room) inSession(ctx context.Context, c gatewaytest.Client, session string) (served string, err error) {
	for range r.stopped + 1 {
		if served, err = inSession(ctx, c, session); errorInfo(err).GetReason() != "UPSTREAM_LOST" {
			break
		}
	}
	return served, err
}

func servedBy(ctx context.Context, c gatewaytest.Client, req *docpb.InvokeRequest) (string, error) {
	var trailer metadata.MD
	_, err := c.Invoke(ctx, req, grpc.Trailer(&trailer))
	return strings.Join(trailer.Get("served-by"), " "), err
}

func withSession(ctx context.Context, session string) context.Context {
	return metadata.AppendToOutgoingContext(to(ctx, "caps"), "x-session-id", session)
}

// TestASessionStays: all calls of a session reach one backend, and sessions are spread.
func TestASessionStays(t *testing.T) {
	every(t, func(t *testing.T, client, backend call.Dialect) {
		r := newRoom(t, 4, backend)
		g := gatewaytest.Start(t, gatewaytest.Options{Fleets: []gatewaytest.Fleet{r.fleet(backend)}})
		c := gatewaytest.NewClient(g.Conn(t), client)
		used := map[string]bool{}
		for i := range 40 {
			session := fmt.Sprint("session-", i)
			home, err := inSession(t.Context(), c, session)
			check.Must(t, err)
			used[home] = true
			for range 3 {
				if served, err := inSession(t.Context(), c, session); served != home || err != nil {
					t.Fatalf("served by %q, not %q: %v", served, home, err)
				}
			}
			var trailer metadata.MD
			req := request(gatewaytest.Echo, `{}`)
			req.SessionId = session
			if client != call.Legacy {
				if _, err := c.StreamInvoke(t.Context(), req, grpc.Trailer(&trailer)); err != nil ||
					trailer.Get("served-by")[0] != home {
					t.Fatalf("the stream went to %q: %v", trailer, err)
				}
			}
			if !filed(client, backend) {
				continue
			}
			up, err := c.Upload(withSession(t.Context(), session), gatewaytest.File{Data: []byte("x")},
				grpc.Trailer(&trailer))
			if served := strings.Join(trailer.Get("served-by"), " "); served != home || err != nil {
				t.Fatalf("the upload went to %q, not %q: %v", served, home, err)
			}
			if f, err := c.Download(to(t.Context(), "caps"), up.ID); err != nil || string(f.Data) != "x" {
				t.Fatalf("%q: %v", f.Data, err)
			}
		}
		if len(used) != 4 {
			t.Errorf("40 sessions use only %v", used)
		}
		artifacts := 0.0
		if filed(client, backend) {
			artifacts = 40
		}
		if m := g.Metrics(t); m[`capgate_affinity_known{what="sessions"}`] != 40 ||
			m[`capgate_affinity_known{what="artifacts"}`] != artifacts {
			t.Errorf("got %v", m)
		}
	})
}

// TestAnUploadPins: an upload pins the session by metadata alone.
func TestAnUploadPins(t *testing.T) {
	eachPair(t, func(t *testing.T, client, backend call.Dialect) {
		r := newRoom(t, 4, backend)
		g := gatewaytest.Start(t, gatewaytest.Options{Fleets: []gatewaytest.Fleet{r.fleet(backend)}})
		c := gatewaytest.NewClient(g.Conn(t), client)
		for i := range 20 {
			session := fmt.Sprint("session-", i)
			var trailer metadata.MD
			if _, err := c.Upload(withSession(t.Context(), session), gatewaytest.File{Data: []byte("x")},
				grpc.Trailer(&trailer)); err != nil {
				t.Fatal(err)
			}
			if served, err := inSession(t.Context(), c, session); err != nil || served != trailer.Get("served-by")[0] {
				t.Errorf("the upload went to %q, the call to %q: %v", trailer.Get("served-by"), served, err)
			}
		}
	})
}

func TestNamingTheSession(t *testing.T) {
	t.Parallel()
	r := newRoom(t, 8, call.Doc)
	g := gatewaytest.Start(t, gatewaytest.Options{Fleets: []gatewaytest.Fleet{r.fleet(call.Doc)}})
	c := gatewaytest.NewClient(g.Conn(t), call.Doc)
	home, err := inSession(t.Context(), c, "mine")
	check.Must(t, err)
	for name, test := range map[string]struct {
		metadata []string
		field    string
		reason   string
	}{
		"the field":          {nil, "mine", ""},
		"metadata":           {[]string{"mine"}, "", ""},
		"both":               {[]string{"mine"}, "mine", ""},
		"metadata twice":     {[]string{"mine", "mine"}, "", ""},
		"two":                {[]string{"other"}, "mine", "SESSION_CONFLICT"},
		"two by metadata":    {[]string{"mine", "other"}, "", "SESSION_CONFLICT"},
		"too long":           {nil, strings.Repeat("s", 513), "SESSION_INVALID"},
		"too long, metadata": {[]string{strings.Repeat("s", 513)}, "", "SESSION_INVALID"},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			for _, id := range test.metadata {
				ctx = metadata.AppendToOutgoingContext(ctx, "x-session-id", id)
			}
			served, err := inSession(ctx, c, test.field)
			switch {
			case test.reason == "" && (err != nil || served != home):
				t.Errorf("served by %q, not %q: %v", served, home, err)
			case test.reason != "" && (status.Code(err) != codes.InvalidArgument ||
				errorInfo(err).GetReason() != test.reason):
				t.Errorf("got %v, %v", err, errorInfo(err))
			}
		})
	}
}

// TestSessionOfACompressedCall: the session is read from a compressed message.
func TestSessionOfACompressedCall(t *testing.T) {
	t.Parallel()
	r := newRoom(t, 4, call.Doc)
	g := gatewaytest.Start(t, gatewaytest.Options{Fleets: []gatewaytest.Fleet{r.fleet(call.Doc)}})
	c := gatewaytest.NewClient(g.Conn(t), call.Doc)
	packed := gatewaytest.NewClient(g.Conn(t, grpc.WithDefaultCallOptions(grpc.UseCompressor("gzip"))), call.Doc)
	for i := range 20 {
		session := fmt.Sprint("session-", i)
		home, err := inSession(t.Context(), c, session)
		check.Must(t, err)
		if served, err := inSession(to(t.Context(), "caps"), packed, session); served != home || err != nil {
			t.Errorf("served by %q, not %q: %v", served, home, err)
		}
	}
}

// TestSessionLostIsReportedOnce: after a backend's end, the first call of each of its sessions gets SESSION_LOST;
// later ones go to another backend. Other sessions are not affected.
func TestSessionLost(t *testing.T) {
	for name, probed := range map[string]bool{"health knows": true, "calls find out": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRoom(t, 3, call.Doc)
			fleet := r.fleet(call.Doc)
			if fleet.Unprobed = !probed; probed {
				fleet.Health = health.Config{Interval: 5e6, Rise: 1, Fall: 1}
			}
			g := gatewaytest.Start(t, gatewaytest.Options{Fleets: []gatewaytest.Fleet{fleet}})
			c := gatewaytest.NewClient(g.Conn(t), call.Doc)
			const sessions = 30
			home := make([]string, sessions)
			for i := range home {
				var err error
				if home[i], err = inSession(t.Context(), c, fmt.Sprint("session-", i)); err != nil {
					t.Fatal(err)
				}
			}
			r.stop(home[0])
			if probed {
				states := make([]health.State, 3)
				for i, cap := range r.all {
					states[i] = health.Up
					if cap.Name == home[0] {
						states[i] = health.Down
					}
				}
				g.WaitHealth(t, "caps", gatewaytest.States(states...))
			}
			for i := range home {
				session := fmt.Sprint("session-", i)
				served, err := r.inSession(t.Context(), c, session)
				if home[i] != home[0] {
					if served != home[i] || err != nil {
						t.Errorf("another session moved from %q to %q: %v", home[i], served, err)
					}
					continue
				}
				info := errorInfo(err)
				if status.Code(err) != codes.Unavailable || info.GetReason() != "SESSION_LOST" ||
					info.GetDomain() != "capgate.dev" ||
					info.GetMetadata()["capability"] != "caps" || info.GetMetadata()["session"] != session {
					t.Fatalf("got %v, %v", err, info)
				}
				checkProgress(t, err, true)
				next, err := r.inSession(t.Context(), c, session)
				if next == home[0] || next == "" || err != nil {
					t.Fatalf("after the loss: %q, %v", next, err)
				}
				for range 3 {
					if served, err := r.inSession(t.Context(), c, session); served != next || err != nil {
						t.Errorf("the new pin does not hold: got %q, want %q: %v", served, next, err)
					}
				}
			}
		})
	}
}

// Of concurrent calls, one gets SESSION_LOST.
func TestSessionLostIsReportedOnce(t *testing.T) {
	t.Parallel()
	r := newRoom(t, 3, call.Doc)
	g := gatewaytest.Start(t, gatewaytest.Options{Fleets: []gatewaytest.Fleet{r.fleet(call.Doc)}})
	c := gatewaytest.NewClient(g.Conn(t), call.Doc)
	home, err := inSession(t.Context(), c, "mine")
	check.Must(t, err)
	r.stop(home)
	const calls = 50
	errs := make(chan error, calls)
	for range calls {
		go func() {
			_, err := r.inSession(t.Context(), c, "mine")
			errs <- err
		}()
	}
	lost := 0
	for range calls {
		switch err := check.Received(t, errs, "the error"); {
		case errorInfo(err).GetReason() == "SESSION_LOST":
			lost++
		case err != nil:
			t.Error(err)
		}
	}
	if countedViews := g.Metrics(t)["capgate_sessions_lost_total"]; lost != 1 || countedViews != 1 {
		t.Errorf("reported %d times, counted %v times", lost, countedViews)
	}
}

// TestAFirstCallLosesNothing: a first call that cannot reach a backend has lost nothing: it goes to another
// one.
func TestAFirstCallLosesNothing(t *testing.T) {
	t.Parallel()
	r := newRoom(t, 1, call.Doc)
	fleet := r.fleet(call.Doc)
	fleet.Backends = append(fleet.Backends, check.ClosedPort(t))
	fleet.Ejection.ConnectFailures = -1
	g := gatewaytest.Start(t, gatewaytest.Options{Fleets: []gatewaytest.Fleet{fleet}})
	c := gatewaytest.NewClient(g.Conn(t), call.Doc)
	for i := range 40 {
		if _, err := inSession(t.Context(), c, fmt.Sprint("session-", i)); err != nil {
			t.Fatal(err)
		}
	}
}

// Over HTTP the loss is a 503 with the reason.
func TestSessionLostOverHTTP(t *testing.T) {
	t.Parallel()
	r := newRoom(t, 3, call.Doc)
	g := gatewaytest.Start(t, gatewaytest.Options{Fleets: []gatewaytest.Fleet{r.fleet(call.Doc)}})
	home, err := inSession(t.Context(), gatewaytest.NewClient(g.Conn(t), call.Doc), "mine")
	check.Must(t, err)
	r.stop(home)
	resp, body := post(t, g.HTTP1(t), g, "caps", `{"tool_name":"echo"}`, "X-Session-Id", "mine")
	for range r.stopped { // it may meet a connection that is just ending
		if !strings.Contains(body, "UPSTREAM_LOST") {
			break
		}
		resp, body = post(t, g.HTTP1(t), g, "caps", `{"tool_name":"echo"}`, "X-Session-Id", "mine")
	}
	if resp.StatusCode != http.StatusServiceUnavailable || !strings.Contains(body, `"reason":"SESSION_LOST"`) ||
		!strings.Contains(body, `"session":"mine"`) ||
		resp.Header.Get("Content-Type") != "application/problem+json" {
		t.Errorf("got %s %s", resp.Status, body)
	}
	if resp, body := post(t, g.HTTP1(t), g, "caps",
		`{"tool_name":"echo","session_id":"mine"}`); resp.StatusCode != http.StatusOK {
		t.Errorf("got %s %s", resp.Status, body)
	}
}

// TestTheOnlyBackendComesBack: a single backend that restarts has lost its sessions, and each gets SESSION_LOST
// once.
func TestTheOnlyBackendComesBack(t *testing.T) {
	t.Parallel()
	r := newRoom(t, 1, call.Doc)
	g := gatewaytest.Start(t, gatewaytest.Options{Fleets: []gatewaytest.Fleet{r.fleet(call.Doc)}})
	c := gatewaytest.NewClient(g.Conn(t), call.Doc)
	if _, err := inSession(t.Context(), c, "mine"); err != nil {
		t.Fatal(err)
	}
	r.stop("b0")
	if _, err := r.inSession(t.Context(), c, "mine"); errorInfo(err).GetReason() != "SESSION_LOST" {
		t.Errorf("got %v, %v", err, errorInfo(err))
	}
	for range 3 {
		if _, err := r.inSession(t.Context(), c, "mine"); errorInfo(err).GetReason() != "BACKEND_UNREACHABLE" {
			t.Errorf("got %v, %v", err, errorInfo(err))
		}
	}
}
