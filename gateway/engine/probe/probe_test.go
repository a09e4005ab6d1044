package probe_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	grpchealth "google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/capgate/capgate/gateway/engine/probe"
	"github.com/capgate/capgate/health"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/testkit/check"
	parallaxpb "github.com/capgate/capgate/proto/openparallax/v1"
	docpb "github.com/capgate/capgate/proto/selu/capability"
)

// answer is a backend's answer to a probe.
type answer struct {
	ready   bool
	message string
	code    codes.Code // not OK: the call fails
}

// backend answers probes. Its answer can be changed while it runs.
type backend struct{ answer atomic.Pointer[answer] }

func newBackend(a answer) *backend {
	b := &backend{}
	b.answer.Store(&a)
	return b
}

func (b *backend) check() (ready bool, message string, err error) {
	a := b.answer.Load()
	if a.code != codes.OK {
		return false, "", status.Error(a.code, a.message)
	}
	return a.ready, a.message, nil
}

// engineServer is an OpenParallax engine that answers probes.
type engineServer struct {
	parallaxpb.UnimplementedClientServiceServer
	*backend
}

func (s engineServer) GetStatus(_ context.Context, _ *parallaxpb.StatusRequest) (*parallaxpb.StatusResponse, error) {
	_, _, err := s.check()
	return &parallaxpb.StatusResponse{AgentName: "ann"}, err
}

type shieldServer struct {
	parallaxpb.UnimplementedShieldServiceServer
	*backend
}

func (s shieldServer) Health(_ context.Context, _ *parallaxpb.HealthRequest) (*parallaxpb.HealthResponse, error) {
	healthy, version, err := s.check()
	return &parallaxpb.HealthResponse{Healthy: healthy, Version: version}, err
}

// capability is a server of the doc dialect, which no engine is.
type capability struct {
	docpb.UnimplementedCapabilityServer
}

func (capability) Healthcheck(context.Context, *docpb.HealthRequest) (*docpb.HealthResponse, error) {
	return &docpb.HealthResponse{Ready: true}, nil
}

func doc(s *grpc.Server) { docpb.RegisterCapabilityServer(s, capability{}) }

func serving(s *grpc.Server) { healthpb.RegisterHealthServer(s, grpchealth.NewServer()) }

func engine(b *backend) func(*grpc.Server) {
	return func(s *grpc.Server) { parallaxpb.RegisterClientServiceServer(s, engineServer{backend: b}) }
}

func shield(b *backend) func(*grpc.Server) {
	return func(s *grpc.Server) { parallaxpb.RegisterShieldServiceServer(s, shieldServer{backend: b}) }
}

// listen starts a server with services on a port of its own until the test ends.
func listen(t *testing.T, services ...func(*grpc.Server)) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	check.Must(t, err)
	s := grpc.NewServer()
	for _, register := range services {
		register(s)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.Serve(ln) // ends when it is stopped
	}()
	t.Cleanup(func() { s.Stop(); check.Received(t, done, "the server to stop") })
	return ln.Addr().String()
}

// first runs a prober over one backend until its first snapshot.
func first(t *testing.T, f health.Fleet) health.Backend {
	t.Helper()
	told := make(chan *health.Snapshot, 1)
	p := health.New([]health.Fleet{f}, health.Options{Changed: func(s *health.Snapshot) {
		select {
		case told <- s:
		default:
		}
	}})
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { p.Run(ctx) })
	defer check.Ended(t, &running, "the background work to end")
	defer cancel()
	return (check.Received(t, told, "the notice")).Backends[0]
}

func TestFirstProbe(t *testing.T) {
	t.Parallel()
	fine, sick := newBackend(answer{ready: true, message: "1.2.3"}), newBackend(answer{})
	broken := newBackend(answer{code: codes.Internal, message: "no model"})
	long := newBackend(answer{ready: true, message: strings.Repeat("ä", 1000)})
	type services = []func(*grpc.Server)
	for name, test := range map[string]struct {
		services services
		asks     health.Question
		state    health.State
		reason   string // part of it
	}{
		"status": {services{engine(fine)}, probe.Of(probe.StatusWord), health.Up, ""},
		"status fails": {services{engine(broken), shield(fine)}, probe.Of(probe.StatusWord), health.Down,
			"Internal: no model"},
		"status is what it is": {services{engine(sick), shield(sick)}, probe.Of(probe.StatusWord), health.Up, ""},
		"a Shield alone has no status": {services{shield(fine), serving}, probe.Of(probe.StatusWord), health.Down,
			"Unimplemented"},
		"healthy Shield": {services{shield(fine)}, probe.Of(probe.ShieldWord), health.Up, "Shield 1.2.3"},
		"sick Shield": {services{engine(fine), shield(sick)}, probe.Of(probe.ShieldWord), health.Down,
			"not healthy"},
		"Shield fails": {services{engine(fine), shield(broken)}, probe.Of(probe.ShieldWord), health.Down,
			"Internal: no model"},
		"no Shield": {services{engine(fine), doc}, probe.Of(probe.ShieldWord), health.Down,
			"Unimplemented"},
		"a long version": {services{shield(long)}, probe.Of(probe.ShieldWord), health.Up, "ää…"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := first(t, health.Fleet{Capability: "c", Backends: []string{listen(t, test.services...)},
				Asks: test.asks})
			if b.State != test.state || b.Dialect != call.Auto || !strings.Contains(b.Reason, test.reason) ||
				len(b.Reason) > 300 {
				t.Errorf("%+v, want %v, %q", b, test.state, test.reason)
			}
		})
	}
}

// TestAnEngineGoesAndComes: an engine hangs, serves again, and gets another kind of probe.
func TestAnEngineGoesAndComes(t *testing.T) {
	t.Parallel()
	status, sick := newBackend(answer{ready: true}), newBackend(answer{})
	fleet := health.Fleet{
		Capability: "c", Backends: []string{listen(t, engine(status), shield(sick))}, Asks: probe.Of(probe.StatusWord),
		Config: health.Config{Interval: 10 * time.Millisecond, Timeout: 5 * time.Second, Rise: 1, Fall: 1},
	}
	told := make(chan *health.Snapshot, 100)
	var log bytes.Buffer // read after the last write
	p := health.New([]health.Fleet{fleet}, health.Options{Logger: slog.New(slog.NewTextHandler(&log, nil)),
		Changed: func(s *health.Snapshot) { told <- s }})
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { p.Run(ctx) })
	defer func() {
		cancel()
		check.Ended(t, &running, "the end of the probes")
		if text := log.String(); !strings.Contains(text, `msg="backend up" capability=c backend=`) ||
			strings.Contains(text, "dialect=") || strings.Contains(text, `reason=""`) {
			t.Errorf("an engine has no dialect: %s", text)
		}
	}()
	becomes := func(what string, want health.State) {
		t.Helper()
		for check.Received(t, told, fmt.Sprint(what, ": it to be ", want)).Backends[0].State != want {
		}
	}
	becomes("at first", health.Up)
	status.answer.Store(&answer{code: codes.Unavailable})
	becomes("without status", health.Down)
	status.answer.Store(&answer{})
	becomes("with status", health.Up)
	fleet.Asks = probe.Of(probe.ShieldWord)
	p.Set([]health.Fleet{fleet})
	becomes("with a sick Shield", health.Down)
	sick.answer.Store(&answer{ready: true})
	becomes("with a healthy Shield", health.Up)
}
