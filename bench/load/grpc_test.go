package load_test

import (
	"fmt"
	"net"
	"net/netip"
	"testing"

	"github.com/capgate/capgate/bench/backend"
	"github.com/capgate/capgate/bench/grpcproxy"
	"github.com/capgate/capgate/bench/h2"
	"github.com/capgate/capgate/bench/load"
	"github.com/capgate/capgate/internal/testkit/check"
)

// viaGRPCGo puts a grpc-go server and a grpc-go client between generator and backend, to check the frames of both.
func viaGRPCGo(t *testing.T) netip.AddrPort {
	t.Helper()
	p, err := grpcproxy.New(serve(t, backend.Config{}).String())
	check.Must(t, err)
	return served(t, p)
}

// served returns the address of a proxy that runs until the end of the test.
func served(t *testing.T, p interface {
	Serve(net.Listener) error
	Close()
}) netip.AddrPort {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	check.Must(t, err)
	done := make(chan error, 1)
	go func() { done <- p.Serve(ln) }()
	t.Cleanup(func() {
		p.Close()
		if err := check.Received(t, done, "Serve to return"); err != nil {
			t.Error(err)
		}
	})
	return netip.MustParseAddrPort(ln.Addr().String())
}

func TestThroughGRPCGo(t *testing.T) {
	t.Parallel()
	for _, cfg := range []load.Config{
		{Mode: load.Closed, Method: load.Invoke, Work: h2.Work{Kind: h2.ReplyWork, Count: 1, Size: 1024},
			RequestSize: 1024, Conns: 2, Streams: 16},
		{Mode: load.Closed, Method: load.Invoke, Work: h2.Work{Kind: h2.ReplyWork, Count: 1, Size: 2 << 20},
			RequestSize: 2 << 20},
		{Mode: load.Closed, Method: load.Stream, Work: h2.Work{Kind: h2.ChunksWork, Count: 300, Size: 100}, Streams: 4},
		{Mode: load.Closed, Method: load.Download, Work: h2.Work{Kind: h2.ArtifactWork, Count: 4, Size: 256 << 10},
			Streams: 2},
		{Mode: load.Closed, Method: load.Upload, RequestSize: 256 << 10, Chunks: 4, Streams: 2},
		{Mode: load.Hold, Method: load.Stream, Work: h2.Work{Kind: h2.PacedWork, Count: 100, Size: 100}, Held: 20,
			Streams: 50},
	} {
		t.Run(fmt.Sprintf("%s %s", cfg.Method, cfg.Work), func(t *testing.T) {
			t.Parallel()
			cfg.Target, cfg.Window = viaGRPCGo(t), 2*window
			had := func(res load.Result) bool {
				return cfg.Mode == load.Closed && res.Total > 0 || cfg.Mode == load.Hold && res.Bytes > 0
			}
			res, err := runUntil(cfg, had)
			check.Must(t, err)
			if res.Errors > 0 || !had(res) {
				t.Errorf("%d calls, %d bytes, %d errors: %s", res.Total, res.Bytes, res.Errors, res.Problem)
			}
		})
	}
}
