package gateway

import (
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/capgate/capgate/gateway/frontdoor/bodybudget"
	"github.com/capgate/capgate/internal/clientaddr"
)

// Bounds of the admin API, for clients without a credential too. Together they hold its memory to some 130 MiB, and
// leave the descriptors to the public port.
const (
	adminConns        = 256
	adminNetworkConns = 128 // of one network
	adminStreams      = 32  // of a connection over HTTP/2
	adminHeader       = 16 << 10
	adminIdle         = time.Minute
	adminStall        = 30 * time.Second // of a body
)

// newAdminServer returns the server of the admin API.
func newAdminServer(handler http.Handler) *http.Server {
	s := &http.Server{
		Handler: stallBodies(handler), Protocols: new(http.Protocols), ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout: adminIdle, MaxHeaderBytes: adminHeader,
		HTTP2: &http.HTTP2Config{MaxConcurrentStreams: adminStreams, MaxDecoderHeaderTableSize: 4 << 10,
			MaxReceiveBufferPerConnection: 1 << 20, MaxReceiveBufferPerStream: 256 << 10},
	}
	s.Protocols.SetHTTP1(true)
	s.Protocols.SetHTTP2(true)
	s.Protocols.SetUnencryptedHTTP2(true) // gRPC
	return s
}

// stallBodies ends requests whose bodies stop arriving.
func stallBodies(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength == 0 || isGRPCRequest(r) {
			next.ServeHTTP(w, r)
			return
		}
		r.Body = bodybudget.StallTimeout(w, r.Body, adminStall)
		next.ServeHTTP(w, r)
		// The server reads the rest of a body that the handler has not read.
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(adminStall))
	})
}

// isGRPCRequest reports whether the body of a request may stay open, as that of a stream.
func isGRPCRequest(r *http.Request) bool {
	return r.ProtoMajor == 2 && strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc")
}

// adminListener bounds the open connections of a listener, and those of each network of clients.
type adminListener struct {
	net.Listener

	mu  sync.Mutex
	all int
	of  map[string]int // by network
}

// BoundAdmin returns the listener of the admin API with bounds. TLS goes above it.
func BoundAdmin(l net.Listener) net.Listener {
	return &adminListener{Listener: l, of: map[string]int{}}
}

// Accept closes connections that are too many.
func (l *adminListener) Accept() (net.Conn, error) {
	for {
		nc, err := l.Listener.Accept()
		if err != nil {
			return nil, err //nolint:wrapcheck // the server compares it
		}
		if c := l.admit(nc); c != nil {
			return c, nil
		}
		_ = nc.Close()
	}
}

// admit counts a connection; nil: there are too many.
func (l *adminListener) admit(nc net.Conn) net.Conn {
	network := clientaddr.NetworkNameOf(clientaddr.AddrOf(nc.RemoteAddr()).String())
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.all >= adminConns || l.of[network] >= adminNetworkConns {
		return nil
	}
	l.all++
	l.of[network]++
	return &adminConn{Conn: nc, release: sync.OnceFunc(func() { l.release(network) })}
}

func (l *adminListener) release(network string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all--
	if l.of[network]--; l.of[network] == 0 {
		delete(l.of, network)
	}
}

// adminConn is a counted connection.
type adminConn struct {
	net.Conn
	release func()
}

// Close closes the connection, and counts it no longer.
func (c *adminConn) Close() error {
	defer c.release()
	return c.Conn.Close() //nolint:wrapcheck // a net.Conn's
}
