package health_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/capgate/capgate/health"
	"github.com/capgate/capgate/internal/call"
	parallaxpb "github.com/capgate/capgate/proto/openparallax/v1"
)

// engineServer is an OpenParallax engine that implements GetStatus only.
type engineServer struct {
	parallaxpb.UnimplementedClientServiceServer
	*backend
}

func (s engineServer) GetStatus(ctx context.Context, _ *parallaxpb.StatusRequest) (*parallaxpb.StatusResponse, error) {
	_, _, err := s.check(ctx)
	return &parallaxpb.StatusResponse{AgentName: "ann"}, err
}

type shieldServer struct {
	parallaxpb.UnimplementedShieldServiceServer
	*backend
}

func (s shieldServer) Health(ctx context.Context, _ *parallaxpb.HealthRequest) (*parallaxpb.HealthResponse, error) {
	healthy, version, err := s.check(ctx)
	return &parallaxpb.HealthResponse{Healthy: healthy, Version: version}, err
}

func engine(b *backend) func(*grpc.Server) {
	return func(s *grpc.Server) { parallaxpb.RegisterClientServiceServer(s, engineServer{backend: b}) }
}

func shield(b *backend) func(*grpc.Server) {
	return func(s *grpc.Server) { parallaxpb.RegisterShieldServiceServer(s, shieldServer{backend: b}) }
}

func TestFirstProbeOfEngines(t *testing.T) {
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
		"status": {services{engine(fine)}, health.EngineStatus, health.Up, ""},
		"status fails": {
			services{engine(broken), shield(fine)}, health.EngineStatus, health.Down, "Internal: no model",
		},
		"status is what it is": {services{engine(sick), shield(sick)}, health.EngineStatus, health.Up, ""},
		"a Shield alone has no status": {
			services{
				shield(fine), standard(healthpb.HealthCheckResponse_SERVING),
			}, health.EngineStatus, health.Down, "Unimplemented",
		},
		"healthy Shield": {services{shield(fine)}, health.EngineShield, health.Up, "Shield 1.2.3"},
		"sick Shield":    {services{engine(fine), shield(sick)}, health.EngineShield, health.Down, "not healthy"},
		"Shield fails":   {services{engine(fine), shield(broken)}, health.EngineShield, health.Down, "Internal: no model"},
		"no Shield":      {services{engine(fine), doc(fine)}, health.EngineShield, health.Down, "Unimplemented"},
		"a long version": {services{shield(long)}, health.EngineShield, health.Up, "ää…"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := first(t, health.Fleet{Capability: "c", Backends: []string{listen(t, nil, test.services...)}, Asks: test.asks})
			if b.State != test.state || b.Dialect != call.Auto || !strings.Contains(b.Reason, test.reason) ||
				len(b.Reason) > 300 {
				t.Errorf("%+v, want %v, %q", b, test.state, test.reason)
			}
		})
	}
}

// TestEngineStateChanges probes an engine that fails and recovers, then with another kind of probe.
func TestEngineStateChanges(t *testing.T) {
	t.Parallel()
	status, sick := newBackend(answer{ready: true}), newBackend(answer{})
	fleet := health.Fleet{
		Capability: "c", Backends: []string{listen(t, nil, engine(status), shield(sick))}, Asks: health.EngineStatus,
		Config: health.Config{Interval: 10 * time.Millisecond, Timeout: 5 * time.Second, Rise: 1, Fall: 1},
	}
	changes := make(chan *health.Snapshot, 100)
	var log bytes.Buffer // read after the prober has ended
	p := health.New([]health.Fleet{fleet}, health.Options{
		Logger: slog.New(slog.NewTextHandler(&log, nil)), Changed: func(s *health.Snapshot) { changes <- s },
	})
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { p.Run(ctx) })
	defer func() {
		cancel()
		running.Wait()
		if text := log.String(); !strings.Contains(text, `msg="backend up" capability=c backend=`) ||
			strings.Contains(text, "dialect=") || strings.Contains(text, `reason=""`) {
			t.Errorf("an engine has no dialect: %s", text)
		}
	}()
	becomes := func(what string, want health.State) {
		t.Helper()
		for patience := time.After(30 * time.Second); ; {
			select {
			case s := <-changes:
				if s.Backends[0].State == want {
					return
				}
			case <-patience:
				t.Fatalf("%s: it is not %v", what, want)
			}
		}
	}
	becomes("at first", health.Up)
	status.answer.Store(&answer{code: codes.Unavailable})
	becomes("without status", health.Down)
	status.answer.Store(&answer{})
	becomes("with status", health.Up)
	fleet.Asks = health.EngineShield
	p.Set([]health.Fleet{fleet})
	becomes("with a sick Shield", health.Down)
	sick.answer.Store(&answer{ready: true})
	becomes("with a healthy Shield", health.Up)
}
