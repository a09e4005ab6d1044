package health

import (
	"context"
	"net"
)

// Once probes one backend of a fleet once, at an address of the fleet, within the fleet's timeout.
func Once(ctx context.Context, f *Fleet, addr string) Result {
	ctx, cancel := context.WithTimeout(ctx, f.Config.withDefaults().Timeout)
	defer cancel()
	c := &client{addr: addr, tls: f.TLS, host: f.Hosts[addr], question: f.Asks, dialect: f.Dialect,
		dial: func(ctx context.Context, addr string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", addr)
		}}
	defer c.close()
	return c.probe(ctx)
}
