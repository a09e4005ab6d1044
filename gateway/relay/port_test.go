package relay_test

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/gateway/relay/accept"
	"github.com/capgate/capgate/internal/testkit/check"
)

// TestPorts: each port has its own Value and TLS. A port with Direct does not read the client's address from the
// connection. The ports do not take each other's connections.
func TestPorts(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var connected []any
	cfg := relay.Config{
		Limits: accept.Limits{MaxConns: 2, MorePorts: 2},
		Origin: func(net.Conn) (net.Addr, error) { return nil, errors.New("no header") },
		OnConnect: func(p *relay.Peer) any {
			mu.Lock()
			defer mu.Unlock()
			if p.Port != nil { // nil for calls of the process
				connected = append(connected, p.Port.Value)
			}
			return nil
		},
	}
	w := newRelayed(t, cfg)
	server, client := tlsConfigs(t)
	clear, secure := &relay.Port{Value: "clear", Direct: true}, &relay.Port{Value: "secure", Direct: true}
	secure.SetTLS(server)
	socket, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	check.Must(t, err)
	inTLS := check.Listen(t)
	ended := make(chan error, 2)
	go func() { ended <- w.ServePort(socket, clear) }()
	go func() { ended <- w.ServePort(inTLS, secure) }()
	check.Cleanup(t, func() {
		w.Close()
		for range 2 {
			if err := check.Received(t, ended, "the end of a port"); err != nil {
				t.Error(err)
			}
		}
	})
	unix := grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket.Addr().String())
	})
	for name, cc := range map[string]*grpc.ClientConn{
		"clear":  dialRaw(t, "localhost:1", unix),
		"secure": dialRaw(t, inTLS.Addr().String(), grpc.WithTransportCredentials(credentials.NewTLS(client))),
	} {
		if got, err := unary(w.ctx, cc, "Echo", []byte(name)); err != nil || string(got) != name {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	public, err := net.Dial("tcp", w.addr)
	check.Must(t, err)
	defer public.Close()
	check.Must(t, public.SetDeadline(time.Now().Add(check.Patience)))
	if n, err := public.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the public port, without its header: %d bytes, %v", n, err)
	}
	mu.Lock()
	defer mu.Unlock()
	if len(connected) != 2 || connected[0] == connected[1] {
		t.Errorf("connected %v", connected)
	}
	var distrust *tls.CertificateVerificationError
	if _, err := tls.DialWithDialer(&net.Dialer{Timeout: check.Patience}, "tcp", inTLS.Addr().String(),
		&tls.Config{ServerName: "other.example"}); !errors.As(err, &distrust) {
		t.Errorf("a client that trusts nobody: %v", err)
	}
}
