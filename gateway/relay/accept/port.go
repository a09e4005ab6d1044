package accept

import (
	"crypto/tls"
	"sync/atomic"
)

// Port is the common configuration of the clients of a listener.
type Port struct {
	Value  any  // set by the owner of the Port to distinguish its clients
	Direct bool // connections come directly from clients, so Config.Origin is not called

	tls atomic.Pointer[tls.Config] // for new connections; nil means cleartext
}

// SetTLS changes the TLS configuration for new connections. Open ones are unaffected. It must not be used on a
// cleartext port that has clients.
func (p *Port) SetTLS(t *tls.Config) {
	t = t.Clone()
	t.NextProtos = []string{"h2", "http/1.1"}
	p.tls.Store(t)
}
