package grpcerror_test

import (
	"context"
	"crypto/tls"
	"net"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/capgate/capgate/internal/lib/grpcerror"
	"github.com/capgate/capgate/internal/testkit/check"
)

// TestExplain calls servers that cannot answer, with and without TLS.
func TestExplain(t *testing.T) {
	t.Parallel()
	secure := httptest.NewTLSServer(nil)
	t.Cleanup(secure.Close)
	plain := httptest.NewServer(nil)
	t.Cleanup(plain.Close)
	overTLS := credentials.NewTLS(&tls.Config{MinVersion: tls.VersionTLS12})
	cleartext := insecure.NewCredentials()
	for name, test := range map[string]struct {
		addr  string
		creds credentials.TransportCredentials
		want  string
	}{
		"nothing listens": {check.ClosedPort(t), cleartext,
			"connection refused: nothing listens at this address"},
		"TLS at a cleartext port": {plain.Listener.Addr().String(), overTLS, "does not use TLS"},
		"cleartext at a TLS port": {secure.Listener.Addr().String(), cleartext, "may expect TLS"},
		"an unknown authority": {secure.Listener.Addr().String(), overTLS,
			"no connection: authentication handshake failed: "},
		"a silent server":         {silent(t), cleartext, grpcerror.NoAnswer},
		"a server without HTTP/2": {plain.Listener.Addr().String(), cleartext, "may expect TLS"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn, err := grpc.NewClient("passthrough:///"+test.addr, grpc.WithTransportCredentials(test.creds))
			check.Must(t, err)
			t.Cleanup(func() { _ = conn.Close() })
			limit := 10 * time.Second
			if test.want == grpcerror.NoAnswer {
				limit = 100 * time.Millisecond
			}
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			_, err = healthpb.NewHealthClient(conn).Check(ctx, &healthpb.HealthCheckRequest{})
			if got := grpcerror.Explain(err); !strings.Contains(got, test.want) || strings.Contains(got, "desc =") {
				t.Errorf("%q, want %q", got, test.want)
			}
		})
	}
}

// TestExplainStatuses: the answer of a server is shown with its code.
func TestExplainStatuses(t *testing.T) {
	t.Parallel()
	got := grpcerror.Explain(status.Error(codes.Unavailable, "out of memory"))
	if got != "gRPC status Unavailable: out of memory" {
		t.Errorf("%q", got)
	}
}

// silent returns the address of a server that accepts connections and sends nothing.
func silent(t *testing.T) string {
	t.Helper()
	return listen(t).Addr().String()
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	check.Must(t, err)
	t.Cleanup(func() { _ = ln.Close() })
	return ln
}
