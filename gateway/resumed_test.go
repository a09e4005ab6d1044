package gateway_test

import (
	"bytes"
	"crypto/tls"
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

// TestReplicasResumeSessions: a client that reaches another replica at the same address resumes its session there, and
// is authenticated by the certificate that the first replica verified. Without the secret it shows the certificate
// again.
func TestReplicasResumeSessions(t *testing.T) {
	t.Parallel()
	authority := certtest.New(t)
	replica := func(secret byte) *secured {
		return securedBy(t, authority, func(port *tls.Config) {
			secrets := [][]byte{bytes.Repeat([]byte{secret}, 32)}
			check.Must(t, (&tlsfiles.Server{}).ShareSessions(port, secrets, nil, nil))
		})
	}
	first, second, stranger := replica(1), replica(1), replica(2)
	cert := authority.Client(t, nil, "spiffe://example.org/ns/a/sa/orch")
	client := &tls.Config{RootCAs: authority.Pool, Certificates: []tls.Certificate{cert},
		ClientSessionCache: tls.NewLRUClientSessionCache(8)}
	for _, visit := range []struct {
		name    string
		at      *secured
		resumed bool
	}{{"first", first, false}, {"second", second, true}, {"stranger", stranger, false}} {
		conn := visit.at.gateway.Conn(t, grpc.WithTransportCredentials(credentials.NewTLS(client)))
		var p peer.Peer
		_, err := gatewaytest.NewClient(conn, call.Doc).Invoke(t.Context(), request(gatewaytest.Echo, `{}`),
			grpc.Peer(&p))
		check.Must(t, err)
		if info := p.AuthInfo.(credentials.TLSInfo); info.State.DidResume != visit.resumed {
			t.Errorf("%s: resumed %v, want %v", visit.name, info.State.DidResume, visit.resumed)
		}
		check.Must(t, conn.Close())
	}
}
