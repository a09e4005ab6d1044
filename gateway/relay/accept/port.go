package accept

import (
	"crypto/tls"
	"sync/atomic"
)

// Port is what the clients of one listener have in common.
type Port struct {
	Value  any  // set by the owner of the Port, to tell its clients apart
	Direct bool // connections come straight from their clients: Config.Origin is not called

	tls atomic.Pointer[tls.Config] // for the next client; nil means cleartext
}

// SetTLS changes the TLS configuration for clients that connect from now on. Open connections stay. It must not be
// used on a port in cleartext that has clients.
func (p *Port) SetTLS(t *tls.Config) {
	t = t.Clone()
	t.NextProtos = []string{"h2", "http/1.1"}
	p.tls.Store(t)
}
