package load_test

import (
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/capgate/capgate/bench/backend"
	"github.com/capgate/capgate/bench/h2"
	"github.com/capgate/capgate/bench/load"
	"github.com/capgate/capgate/internal/testkit/check"
)

// serve runs a backend until the end of the test.
func serve(t *testing.T, cfg backend.Config) netip.AddrPort {
	t.Helper()
	b, err := backend.New(cfg)
	check.Must(t, err)
	var stop atomic.Bool
	done := make(chan error, 1)
	go func() { done <- b.Serve(stop.Load) }()
	t.Cleanup(func() {
		stop.Store(true)
		if err := check.Received(t, done, "Serve to return"); err != nil {
			t.Error(err)
		}
	})
	return b.Addr()
}

const window = 300 * time.Millisecond

// runUntil runs a load, and repeats it with a longer window until enough calls have ended on a busy machine.
func runUntil(cfg load.Config, enough func(load.Result) bool) (res load.Result, err error) {
	for {
		res, err = load.Run(cfg)
		if cfg.Window *= 4; err != nil || enough(res) || cfg.Window > check.Patience {
			return res, err
		}
	}
}

func TestModes(t *testing.T) {
	t.Parallel()
	small := h2.Work{Kind: h2.ReplyWork, Count: 1, Size: 1024}
	tests := map[string]struct {
		cfg   load.Config
		total int64 // required number of calls
	}{
		"unary closed": {load.Config{Mode: load.Closed, Method: load.Invoke, Work: small, RequestSize: 1024, Conns: 4,
			Streams: 16}, 4 * 16},
		"unary open": {load.Config{Mode: load.Open, Method: load.Invoke, Work: small, RequestSize: 1024, Conns: 2,
			Rate: 1000}, 10},
		"no arguments": {load.Config{Mode: load.Closed, Method: load.Invoke,
			Work: h2.Work{Kind: h2.ReplyWork, Count: 1}},
			1},
		"4 MiB both ways": {load.Config{Mode: load.Closed, Method: load.Invoke, RequestSize: 4 << 20,
			Work: h2.Work{Kind: h2.ReplyWork, Count: 1, Size: 4 << 20}, Streams: 2}, 2},
		"chunks in bursts": {load.Config{Mode: load.Closed, Method: load.Stream, Conns: 2, Streams: 4, RequestSize: 10,
			Work: h2.Work{Kind: h2.ChunksWork, Count: 1000, Size: 100}}, 2 * 4},
		"chunks paced": {load.Config{Mode: load.Hold, Method: load.Stream, Conns: 2, Streams: 100, Held: 20,
			Work: h2.Work{Kind: h2.PacedWork, Count: 200, Size: 100}}, 0},
		"idle": {load.Config{Mode: load.Hold, Method: load.Stream, Conns: 1, Streams: 50, Held: 120,
			Work: h2.Work{Kind: h2.IdleWork, Count: 1, Size: 100}}, 0},
		"idle connections": {load.Config{Mode: load.Idle, Method: load.Invoke, Work: small, Conns: 30}, 30},
		"unary with a key and headers": {load.Config{Mode: load.Closed, Method: load.Invoke, Work: small, Key: "k",
			Header: [][2]string{{"x-a", "b"}}}, 1},
		"download": {load.Config{Mode: load.Closed, Method: load.Download, Conns: 2, Streams: 2,
			Work: h2.Work{Kind: h2.ArtifactWork, Count: 8, Size: 256 << 10}}, 2 * 2},
		"upload": {load.Config{Mode: load.Closed, Method: load.Upload, Conns: 2, Streams: 2,
			RequestSize: 256 << 10, Chunks: 8}, 2 * 2},
		"many capabilities": {load.Config{Mode: load.Closed, Method: load.Invoke, Work: small, RequestSize: 1,
			Capabilities: 100}, 1},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tt.cfg.Target = serve(t, backend.Config{})
			tt.cfg.Window = window
			paced := tt.cfg.Work.Kind == h2.PacedWork
			res, err := runUntil(tt.cfg, func(res load.Result) bool {
				return res.Total >= tt.total && (!paced || res.Bytes > 0)
			})
			check.Must(t, err)
			if res.Errors > 0 || res.Problem != "" {
				t.Errorf("%d errors: %s", res.Errors, res.Problem)
			}
			if res.Total < tt.total {
				t.Errorf("%d calls ended, want at least %d", res.Total, tt.total)
			}
			if paced && res.Bytes == 0 {
				t.Error("no chunk was received")
			}
			if res.Opened != tt.cfg.Held {
				t.Errorf("%d streams opened, want %d", res.Opened, tt.cfg.Held)
			}
		})
	}
}

func TestHoldRespectsPeersStreamLimit(t *testing.T) {
	t.Parallel()
	res, err := load.Run(load.Config{
		Target: serve(t, backend.Config{MaxStreams: 30}), Mode: load.Hold, Method: load.Stream, Streams: 50, Held: 100,
		Work: h2.Work{Kind: h2.IdleWork, Count: 1, Size: 1},
	})
	check.Must(t, err)
	if res.Opened != 100 || res.OpenedConns != 4 {
		t.Errorf("%d streams on %d connections, want 100 on 4", res.Opened, res.OpenedConns)
	}
}

func TestTightWindows(t *testing.T) {
	t.Parallel()
	cfg := load.Config{
		Target: serve(t, backend.Config{StreamWindow: 777, ConnWindow: 65535}), StreamWindow: 333, ConnWindow: 65535,
		Mode: load.Closed, Method: load.Invoke, RequestSize: 50000, Conns: 2, Streams: 8, Window: window,
		Work: h2.Work{Kind: h2.ReplyWork, Count: 1, Size: 50000},
	}
	res, err := runUntil(cfg, func(res load.Result) bool { return res.Total >= 2*8 })
	if err != nil || res.Errors > 0 || res.Total < 2*8 {
		t.Errorf("%d calls, %d errors %s, %v", res.Total, res.Errors, res.Problem, err)
	}
}

func TestUnknownTargetIsAnError(t *testing.T) {
	t.Parallel()
	_, err := load.Run(load.Config{Target: netip.MustParseAddrPort("127.0.0.1:1"), Mode: load.Closed,
		Method: load.Invoke})
	if err == nil || !strings.Contains(err.Error(), "127.0.0.1:1") {
		t.Errorf("error %v, want an error with the address", err)
	}
}
