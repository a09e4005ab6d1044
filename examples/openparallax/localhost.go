package openparallax

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"

	"google.golang.org/grpc"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"
)

// Hosts lists the addresses of the name localhost, in the order of a host's /etc/hosts. Nil selects those of the
// system.
//
// Published engines listen at localhost, for which Go takes the first IPv4 address if there is one. Their agents and
// the terminal UI dial localhost, for which Go tries the addresses in the order of the file.
type Hosts []netip.Addr

// listen listens at localhost, on another port if the given one is in use.
func (h Hosts) listen(port int) (net.Listener, error) {
	host := "localhost"
	if len(h) > 0 {
		host = h[max(slices.IndexFunc(h, netip.Addr.Is4), 0)].String()
	}
	var listen net.ListenConfig
	ln, err := listen.Listen(context.Background(), "tcp", net.JoinHostPort(host, strconv.Itoa(port)))
	if err != nil && port != 0 {
		ln, err = listen.Listen(context.Background(), "tcp", net.JoinHostPort(host, "0"))
	}
	if err != nil {
		return nil, fmt.Errorf("engine: %w", err)
	}
	return ln, nil
}

// Target returns the target of an address for grpc.NewClient, with the required options.
func (h Hosts) Target(addr string) (string, []grpc.DialOption) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil || host != "localhost" || h == nil {
		return addr, nil
	}
	builder := manual.NewBuilderWithScheme("hosts")
	var all []resolver.Address
	for _, a := range h {
		all = append(all, resolver.Address{Addr: net.JoinHostPort(a.String(), port)})
	}
	builder.InitialState(resolver.State{Addresses: all})
	return "hosts:///" + addr, []grpc.DialOption{grpc.WithResolvers(builder)}
}
