package relay_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"

	"github.com/capgate/capgate/gateway/relay"
)

// TestRelayBehindRelay sends much in both directions at once between two relays whose connection buffers little.
// Neither may wait until the other one reads.
func TestRelayBehindRelay(t *testing.T) {
	t.Parallel()
	const messages = 10 // of 50 kB on 60 streams: 30 MB in each direction, far beyond the buffers
	for name, dial := range map[string]func(*relayed) func(context.Context) (net.Conn, error){
		"pipe": func(w *relayed) func(context.Context) (net.Conn, error) { return servePipes(t, w.Relay).dial },
		"tcp": func(w *relayed) func(context.Context) (net.Conn, error) {
			return func(context.Context) (net.Conn, error) {
				nc, err := net.Dial("tcp", w.addr)
				if err == nil {
					err = errors.Join(nc.(*net.TCPConn).SetReadBuffer(128<<10),
						nc.(*net.TCPConn).SetWriteBuffer(32<<10))
				}
				return nc, err
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			behind := newRelayed(t, relay.Config{})
			w := newRelayed(t, relay.Config{})
			w.h.to(w.NewUpstream(relay.UpstreamConfig{Dial: dial(behind), MaxConns: 1}))
			var all sync.WaitGroup
			for i := range 60 {
				s := stream(w.ctx, t, w.cc, "Echo")
				all.Go(func() {
					for range messages {
						if err := send(s, pattern(i, 50_000)); err != nil {
							t.Errorf("send: %v", err)
							return
						}
					}
					_ = s.CloseSend()
				})
				all.Go(func() {
					for n := 0; ; n++ {
						got, err := recv(s)
						if errors.Is(err, io.EOF) && n == messages {
							return
						}
						if err != nil || !bytes.Equal(got, pattern(i, 50_000)) {
							t.Error(fmt.Errorf("message %d: %w", n, err), got)
							return
						}
					}
				})
			}
			all.Wait()
		})
	}
}
