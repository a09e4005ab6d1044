package resttest

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	"github.com/capgate/capgate/gateway/frontdoor/problem"
	"github.com/capgate/capgate/gateway/frontdoor/rest"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/clienttest"
)

// Serve serves a front door with a gRPC server in place of the gateway. Both end with the test.
func Serve(t testing.TB, register func(*grpc.Server), cfg rest.Config) *httptest.Server {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	check.Must(t, err)
	web := httptest.NewServer(before(t, ln, register, cfg))
	check.Cleanup(t, web.Close)
	web.Client().Transport = clienttest.Bound(web.Client().Transport)
	return web
}

// Handler returns the front door of Serve without sockets, for a bubble of testing/synctest.
func Handler(t testing.TB, register func(*grpc.Server), cfg rest.Config) http.Handler {
	t.Helper()
	ln := bufconn.Listen(1 << 20)
	return before(t, ln, register, cfg, grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
		return ln.DialContext(ctx)
	}))
}

// before returns a front door in front of a listening gRPC server.
func before(t testing.TB, ln net.Listener, register func(*grpc.Server), cfg rest.Config,
	dial ...grpc.DialOption) http.Handler {
	t.Helper()
	srv := grpc.NewServer(grpc.MaxRecvMsgSize(32 << 20))
	register(srv)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := srv.Serve(ln); err != nil {
			t.Error(err)
		}
	}()
	conn, err := grpc.NewClient("passthrough:///"+ln.Addr().String(),
		append(dial, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	check.Must(t, err)
	h, err := rest.New(conn, cfg)
	check.Must(t, err)
	check.Cleanup(t, func() {
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
		srv.Stop()
		<-done
	})
	return problem.WithRequestID(problem.Check(h))
}
