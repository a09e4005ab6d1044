package gateway_test

import (
	"bytes"
	"crypto/tls"
	"errors"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/tlsfiles"
	"github.com/capgate/capgate/internal/testkit/certtest"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
)

// memory has files in memory.
type memory map[string]string

func (m memory) Read(name string) ([]byte, error)     { return []byte(m[name]), nil }
func (m memory) Wrong(_, text string, _ ...any) error { return errors.New(text) }

// TestReplicasResumeSessions: a client that reaches another replica at the same address resumes its session there only
// if the ports accept no client certificates. With them the client shows its certificate at each replica, and resumes
// its session where that was verified.
func TestReplicasResumeSessions(t *testing.T) {
	t.Parallel()
	authority := certtest.New(t)
	cert, key := certtest.PEMOf(t, authority.Server(t))
	files := memory{"cert": cert, "key": key, "ca": authority.PEM}
	for _, test := range []struct {
		authorities string
		resumed     []bool // at the first replica, there again, at the second, at one with another secret
	}{{"", []bool{false, true, true, false}}, {"ca", []bool{false, true, false, false}}} {
		replica := func(secret byte) *secured {
			return securedBy(t, authority, func(port *tls.Config) {
				server := tlsfiles.Server{CertFile: "cert", KeyFile: "key", ClientCAFile: test.authorities}
				made, err := server.Read(files, bytes.Repeat([]byte{secret}, 32))
				check.Must(t, err)
				port.GetConfigForClient = made.GetConfigForClient
			})
		}
		first, second, stranger := replica(1), replica(1), replica(2)
		client := authority.Visitor(authority.Client(t, nil, "spiffe://example.org/ns/a/sa/orch"))
		for i, at := range []*secured{first, first, second, stranger} {
			conn := at.gateway.Conn(t, grpc.WithTransportCredentials(credentials.NewTLS(client)))
			var p peer.Peer
			_, err := gatewaytest.NewClient(conn, call.Doc).Invoke(t.Context(), request(gatewaytest.Echo, `{}`),
				grpc.Peer(&p))
			if authenticated := err == nil; authenticated != (test.authorities != "") {
				t.Errorf("authorities %q, visit %d: %v", test.authorities, i, err)
			}
			if info := p.AuthInfo.(credentials.TLSInfo); info.State.DidResume != test.resumed[i] {
				t.Errorf("authorities %q, visit %d: resumed %v", test.authorities, i, info.State.DidResume)
			}
			check.Must(t, conn.Close())
		}
	}
}
