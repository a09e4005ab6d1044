package resttest

import (
	"net"
	"net/http/httptest"
	"testing"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/capgate/capgate/gateway/frontdoor/rest"
)

// Serve serves a front door whose gateway is a gRPC server alone. Both end with the test.
func Serve(t testing.TB, register func(*grpc.Server), cfg rest.Config) *httptest.Server {
	t.Helper()
	srv := grpc.NewServer(grpc.MaxRecvMsgSize(32 << 20))
	register(srv)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := srv.Serve(ln); err != nil {
			t.Error(err)
		}
	}()
	conn, err := grpc.NewClient(ln.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	h, err := rest.New(conn, runtime.HTTPStatusFromCode, cfg)
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(h)
	t.Cleanup(func() {
		web.Close()
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
		srv.Stop()
		<-done
	})
	return web
}
