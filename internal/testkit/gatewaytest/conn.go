package gatewaytest

import (
	"net/http"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/clienttest"
)

// Conn returns a client connection to the public port, until the test ends.
func (g *Gateway) Conn(t testing.TB, opts ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	opts = append([]grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials())}, opts...)
	conn, err := clienttest.NewConn("passthrough:///"+g.Addr, opts...)
	check.Must(t, err)
	check.Cleanup(t, func() { _ = conn.Close() })
	return conn
}

// HTTP1 returns an HTTP/1.1 client, until the test ends.
func (g *Gateway) HTTP1(t testing.TB) *http.Client {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	return client(t, protocols)
}

// HTTP2 returns a client for cleartext HTTP/2 with prior knowledge, until the test ends.
func (g *Gateway) HTTP2(t testing.TB) *http.Client {
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	return client(t, protocols)
}

func client(t testing.TB, protocols *http.Protocols) *http.Client {
	transport := &http.Transport{Protocols: protocols}
	check.Cleanup(t, transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: check.Patience}
}
