package forward_test

import (
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/capgate/capgate/internal/forward"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	livepb "github.com/capgate/capgate/proto/selu/capability/v1"
)

// TestRefusals: the log says why a gateway refuses calls, once.
func TestRefusals(t *testing.T) {
	t.Parallel()
	b := gatewaytest.Serve(t, func(s *grpc.Server) {
		livepb.RegisterCapabilityServer(s, livepb.UnimplementedCapabilityServer{})
	})
	w := run(t, forward.Settings{URL: "http://" + b.Addr})
	for range 5 {
		if _, err := w.client.Healthcheck(t.Context(),
			&livepb.HealthRequest{}); status.Code(err) != codes.Unimplemented {
			t.Errorf("%v", err)
		}
	}
	w.log.Wait(t, "the gateway does not know the method; the URL may be that of another port")
	if n := strings.Count(w.log.String(), "call refused"); n != 1 {
		t.Errorf("%d lines: %s", n, w.log)
	}
}

// TestGatewayWantsTLS: a cleartext call to a gateway that requires TLS was not started, and the log has the reason.
func TestGatewayWantsTLS(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	check.Must(t, err)
	t.Cleanup(func() { _ = ln.Close() })
	go func() {
		for {
			nc, err := ln.Accept()
			if err != nil {
				return
			}
			go refuseCleartext(nc)
		}
	}()
	w := run(t, forward.Settings{URL: "http://" + ln.Addr().String(), Wait: 200 * time.Millisecond})
	err = w.invoke(t.Context(), gatewaytest.Echo)
	if text(err) != notStarted {
		t.Errorf("%v", err)
	}
	w.log.Wait(t, "this port speaks TLS")
}

// refuseCleartext answers the first request of a connection as a gateway's port does that speaks TLS.
func refuseCleartext(nc net.Conn) {
	defer nc.Close()
	if _, err := io.ReadFull(nc, make([]byte, len(http2.ClientPreface))); err != nil {
		return
	}
	framer := http2.NewFramer(nc, nc)
	_ = framer.WriteSettings()
	for {
		f, err := framer.ReadFrame()
		if err != nil {
			return
		}
		if f.Header().Type == http2.FrameHeaders {
			_ = framer.WriteGoAway(f.Header().StreamID, http2.ErrCodeInadequateSecurity, []byte("this port speaks TLS"))
		}
	}
}
