package extauthz_test

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/capgate/capgate/gateway/engine/shield"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/policy/extauthz"
	openparallaxv1 "github.com/capgate/capgate/proto/openparallax/v1"
)

// watched reports each accepted connection that the peer has closed.
type watched struct {
	net.Listener
	closed chan struct{}
}

type watchedConn struct {
	net.Conn
	once   sync.Once
	closed chan struct{}
}

func (w *watched) Accept() (net.Conn, error) {
	nc, err := w.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &watchedConn{Conn: nc, closed: w.closed}, nil
}

func (c *watchedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if err != nil { // including a reset: the last PING acknowledgement may be unread
		c.once.Do(func() { c.closed <- struct{}{} })
	}
	return n, err
}

// TestReplace: a removed Shield answers its pending requests, and then its connection is closed.
func TestReplace(t *testing.T) {
	t.Parallel()
	asked, release := make(chan struct{}), make(chan struct{})
	old := &server{answer: func(_ context.Context, q question) (answer, error) {
		if q.args == `{"wait":1}` {
			close(asked)
			<-release
		}
		return answer{decision: "ESCALATE", expires: time.Now().Add(time.Hour)}, nil
	}}
	ln := &watched{listen(t), make(chan struct{}, 10)}
	g := grpc.NewServer()
	openparallaxv1.RegisterShieldServiceServer(g, grpcServer{server: old})
	go func() { _ = g.Serve(ln) }()
	t.Cleanup(g.Stop)
	first := extauthz.Config{Name: "old", Address: ln.Addr().String(), Timeout: check.Patience, Cache: 10}
	second := serveGRPC(t, &server{answer: func(context.Context, question) (answer, error) {
		return allow(), nil
	}}, nil)

	s := judges(t, first, extauthz.Options{})
	judge(t, s, forecast(), "")
	if err := s.Replace([]extauthz.Config{second, first},
		map[string]string{"weather": "old", "other": "main"}); err != nil {
		t.Fatal(err)
	}
	if !judge(t, s, forecast(), "") {
		t.Error("a shield that did not change has forgotten its verdicts")
	}
	if !s.For("other") {
		t.Error("a new capability's calls are not judged")
	}
	for name, test := range map[string]struct {
		configs []extauthz.Config
		of      map[string]string
	}{
		"twice":   {[]extauthz.Config{second, second}, nil},
		"unknown": {[]extauthz.Config{second}, map[string]string{"weather": "nobody"}},
		"nothing": {[]extauthz.Config{{Name: "x"}}, nil},
		"both":    {[]extauthz.Config{{Name: "x", Address: "h:1", URL: "http://h/evaluate"}}, nil},
		"bad URL": {[]extauthz.Config{{Name: "x", URL: "h:1"}}, nil},
	} {
		if err := s.Replace(test.configs, test.of); err == nil {
			t.Errorf("%s is accepted", name)
		}
		if !judge(t, s, forecast(), "") {
			t.Errorf("%s: the verdicts are forgotten", name)
		}
	}

	waiting := make(chan extauthz.Answer, 1)
	go func() {
		a, _ := s.Check(check.Context(t), forecast(), []byte(`{"wait":1}`))
		waiting <- a
	}()
	check.Received(t, asked, "the question")
	check.Must(t, s.Replace([]extauthz.Config{second}, map[string]string{"weather": "main"}))
	if a, _ := s.Check(check.Context(t), forecast(), nil); a.Verdict != call.Allow || a.Cached {
		t.Errorf("the new shield: %+v", a)
	}
	select {
	case <-ln.closed:
		t.Error("the connection was closed below a call")
	default:
	}
	close(release)
	if a := check.Received(t, waiting, "the verdict of the call that waits"); a.Verdict != call.Ask || a.Failed {
		t.Errorf("the call that waited: %+v", a)
	}
	check.Received(t, ln.closed, "the close")

	if err := s.Replace(nil, nil); err != nil || s.For("weather") {
		t.Errorf("%v; calls are still judged: %t", err, s.For("weather"))
	}
	if a, refusal := s.Check(check.Context(t), forecast(), nil); a.Verdict != call.Allow || refusal != nil {
		t.Errorf("without a shield: %+v, %v", a, refusal)
	}
}

// lingering is a client whose requests end only when they are released, even if they are canceled.
type lingering struct {
	extauthz.Client
	asked, release, closed chan struct{}
}

func (l *lingering) Evaluate(context.Context, *extauthz.Action) (*extauthz.Reply, error) {
	close(l.asked)
	<-l.release
	return nil, extauthz.Unreachable("it was canceled")
}

func (l *lingering) Close() {
	l.Client.Close()
	close(l.closed)
}

// TestReplaceBelowARequest: a client is closed after its last request has ended, even if the callers have left.
func TestReplaceBelowARequest(t *testing.T) {
	t.Parallel()
	l := &lingering{asked: make(chan struct{}), release: make(chan struct{}), closed: make(chan struct{})}
	s := extauthz.New(extauthz.Options{Dial: func(c *extauthz.Config) (client extauthz.Client, err error) {
		l.Client, err = shield.Dial(c)
		return l, err
	}})
	c := serveGRPC(t, &server{}, nil)
	check.Must(t, s.Replace([]extauthz.Config{c}, map[string]string{"weather": c.Name}))
	ctx, leave := context.WithCancel(t.Context())
	var calls sync.WaitGroup
	calls.Go(func() { _, _ = s.Check(ctx, forecast(), nil) })
	check.Received(t, l.asked, "the request")
	leave()
	check.Ended(t, &calls, "the call to leave")
	if err := s.Replace(nil, nil); err != nil {
		t.Error(err)
	}
	select {
	case <-l.closed:
		t.Error("the client was closed below its request")
	default:
	}
	close(l.release)
	check.Received(t, l.closed, "the close")
	s.Close()
}

// TestReplaceWhileCalled: while Shields are replaced, each concurrent call is checked by one of them.
func TestReplaceWhileCalled(t *testing.T) {
	t.Parallel()
	onBothForms(t, func(t *testing.T, start func(*server) extauthz.Config) {
		c := start(&server{
			answer: func(context.Context, question) (answer, error) { return answer{decision: "ESCALATE"}, nil },
		})
		s := judges(t, c, extauthz.Options{})
		ctx, stop := context.WithCancel(t.Context())
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				for ctx.Err() == nil {
					if a, refusal := s.Check(t.Context(), forecast(), nil); a.Verdict != call.Ask || a.Failed ||
						refusal != nil {
						t.Errorf("%+v, %v", a, refusal)
						return
					}
				}
			})
		}
		for n := range 50 {
			c.Cache = n
			if err := s.Replace([]extauthz.Config{c}, map[string]string{"weather": "main"}); err != nil {
				t.Error(err)
			}
			_, _ = s.Check(check.Context(t), forecast(), nil)
		}
		stop()
		check.Ended(t, &all, "the callers")
		var judged int64
		for _, stats := range s.Each() {
			judged = stats.Answered[call.Ask][0]
		}
		if judged < 50 {
			t.Error("a shield that is replaced forgets what it counted")
		}
	})
}

func TestStats(t *testing.T) {
	t.Parallel()
	c := serveHTTP(t, &server{answer: func(_ context.Context, q question) (answer, error) {
		return answer{
			decision: map[string]string{"{}": "BLOCK", `{"a":1}`: "ALLOW"}[q.args], expires: time.Now().Add(time.Hour),
		}, nil
	}}, nil)
	s := judges(t, c, extauthz.Options{})
	for _, args := range []string{"{}", "{}", `{"a":1}`, `{"a":2}`} {
		_, _ = s.Check(check.Context(t), forecast(), []byte(args))
	}
	for name, got := range s.Each() {
		want := extauthz.Stats{Malformed: 1, Durations: got.Durations, Seconds: got.Seconds}
		want.Answered[call.Block] = [2]int64{1, 1}
		want.Answered[call.Allow] = [2]int64{1, 0}
		var asked int64
		for _, n := range got.Durations {
			asked += n
		}
		if name != "main" || got != want || asked != 3 || got.Seconds <= 0 {
			t.Errorf("%s: %+v; asked %+v", name, got, asked)
		}
	}
}
