package relay_test

import (
	"crypto/tls"
	"testing"
	"time"

	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/testkit/certtest"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/rawhttp2"
)

// notedBudget records each release.
type notedBudget struct {
	budget
	released chan struct{}
}

func (b *notedBudget) Release(n int64) {
	b.budget.Release(n)
	select {
	case b.released <- struct{}{}:
	default:
	}
}

// TestReadBuffersOfTLSAreReleased: a client over TLS, with or without a certificate, is charged for a long read buffer
// only while it sends a long message.
func TestReadBuffersOfTLSAreReleased(t *testing.T) {
	t.Parallel()
	authority := certtest.New(t)
	for name, auth := range map[string]tls.ClientAuthType{
		"no certificate": tls.NoClientCert, "certificate": tls.RequireAnyClientCert,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			account := &notedBudget{budget{limit: 1 << 30}, make(chan struct{}, 1)}
			_, addr := serveRelay(t, relay.Config{
				Shards: 1,
				TLS:    &tls.Config{Certificates: []tls.Certificate{authority.Server(t)}, ClientAuth: auth},
				Memory: relay.Memory{Client: func(p *relay.Peer) relay.Account {
					if p == nil {
						return nil
					}
					return account
				}},
			}, &forwarder{}, site())
			tc, err := tls.Dial("tcp", addr, &tls.Config{RootCAs: authority.Pool, NextProtos: []string{"h2"},
				DynamicRecordSizingDisabled: true,
				Certificates:                []tls.Certificate{authority.Client(t, nil, "spiffe://example.org/a")}})
			check.Must(t, err)
			defer func() { _ = tc.Close() }()
			check.Must(t, tc.SetDeadline(time.Now().Add(check.Patience)))
			c := rawhttp2.New(tc)
			check.Must(t, c.Greet())
			for range 3 {
				account.most.Store(0)
				check.Must(t, c.Write(rawhttp2.Frame{Type: 0xfe, Payload: make([]byte, 16000)}))
				check.Must(t, c.Sync())
				for account.held.Load() > 16<<10 {
					check.Received(t, account.released, "the end of the charge for a read buffer")
				}
				if most := account.most.Load(); most < 20<<10 {
					t.Errorf("a long message was charged %d bytes", most)
				}
			}
		})
	}
}
