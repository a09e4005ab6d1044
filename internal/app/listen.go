package app

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"syscall"

	frontdoors "github.com/capgate/capgate/gateway/frontdoor/web"
	"github.com/capgate/capgate/gateway/questions"
	"github.com/capgate/capgate/internal/config"
	"github.com/capgate/capgate/internal/lib/hosts"
)

// listen opens one of the two ports. If it is in use, the error says what to do.
func listen(field, addr string) (net.Listener, error) {
	at, err := ownAddress(addr)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", field, err)
	}
	ln, err := net.Listen("tcp", at)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("%s is in use by another program; choose another address with --%s HOST:PORT", addr,
			field)
	}
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w (choose another with --%s HOST:PORT)", field, addr, err, field)
	}
	return ln, nil
}

// ownAddress returns the address to listen on for host:port. A host that is a network, as in 10.0.7.0/24:8081, stands
// for this machine's own address in it: a container that several networks share listens in one of them alone.
func ownAddress(addr string) (string, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return addr, nil //nolint:nilerr // net.Listen returns the error
	}
	network, err := netip.ParsePrefix(host)
	if err != nil {
		return addr, nil //nolint:nilerr // a host, or none
	}
	own, err := net.InterfaceAddrs()
	if err != nil {
		return "", fmt.Errorf("addresses of this machine: %w", err)
	}
	for _, a := range own {
		at, err := netip.ParsePrefix(a.String())
		if err == nil && network.Contains(at.Addr().Unmap()) {
			return net.JoinHostPort(at.Addr().Unmap().String(), port), nil
		}
	}
	return "", fmt.Errorf("this machine has no address in the network %s", network)
}

// hostsOf returns the host names that the ports accept: those of the configuration, and those implied by it.
func hostsOf(cfg *config.Config) frontdoors.Names {
	public, admin := namesOf(cfg)
	return frontdoors.Names{Public: hosts.New(public).WithAddresses(), Admin: hosts.New(admin)}
}

// ownOf returns the addresses of the gateway, to which the questions of servers must not lead.
func ownOf(cfg *config.Config) *questions.Own {
	public, admin := namesOf(cfg)
	ports := []string{cfg.Listen, cfg.Admin}
	for i := range cfg.Listeners {
		ports = append(ports, cfg.Listeners[i].Address)
	}
	for _, at := range [...]string{cfg.PublicURL, cfg.AdminURL} {
		if u, err := url.Parse(at); err == nil && u.Host != "" {
			ports = append(ports, net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), u.Scheme)))
		}
	}
	return questions.NewOwn(append(public, admin...), ports)
}

// namesOf returns the host names of the public port and of the admin API.
func namesOf(cfg *config.Config) (public, admin []string) {
	own := func(listen string, names []string) []string {
		if host, _, err := net.SplitHostPort(listen); err == nil && host != "" {
			names = append(names, host)
		}
		return names
	}
	reached := func(at string, names []string) []string { // the URL at which people reach the port
		if u, err := url.Parse(at); err == nil && u.Host != "" {
			names = append(names, u.Hostname())
		}
		return names
	}
	public = reached(cfg.PublicURL, slices.Clone(cfg.Hosts))
	for _, d := range cfg.Domains {
		public = append(public, d, "*."+d)
	}
	for i := range cfg.Listeners {
		if l := &cfg.Listeners[i]; l.Socket() == "" {
			public = own(l.Address, public)
		}
	}
	return own(cfg.Listen, public), own(cfg.Admin, reached(cfg.AdminURL, slices.Clone(cfg.AdminHosts)))
}
