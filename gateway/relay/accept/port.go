package relay

import (
	"crypto/tls"
	"net"
	"sync/atomic"
)

// Port is what the clients of one listener have in common.
type Port struct {
	Value  any  // whatever the owner of the Port tells its clients apart by
	Direct bool // connections come straight from their clients: Config.Origin is not asked

	tls atomic.Pointer[tls.Config] // of the next client; nil: cleartext
}

// SetTLS changes what clients of the port that come from now on are shown and asked. Those that are there stay. It must
// not be used on a port in cleartext that has clients.
func (p *Port) SetTLS(t *tls.Config) {
	t = t.Clone()
	t.NextProtos = []string{"h2", "http/1.1"}
	p.tls.Store(t)
}

// Serve accepts clients of the public port on ln until Shutdown or Close, and closes it. It returns nil after those, or
// the listener's error.
func (r *Relay) Serve(ln net.Listener) error { return r.ServePort(ln, &r.public) }

// SetTLS is Port.SetTLS for the public port.
func (r *Relay) SetTLS(t *tls.Config) { r.public.SetTLS(t) }
