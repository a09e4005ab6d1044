package app

import (
	"errors"
	"fmt"
	"net"
	"syscall"

	"github.com/capgate/capgate/gateway"
	"github.com/capgate/capgate/internal/config"
	"github.com/capgate/capgate/internal/lib/unixsocket"
	"github.com/capgate/capgate/internal/settings"
)

// openListeners opens the addresses of listeners. Those that are open after an error are p's, too.
func (p *ports) openListeners(s *settings.Settings) error {
	for i := range s.Config.Listeners {
		l := &s.Config.Listeners[i]
		ln, err := openListener(l)
		if err != nil {
			return fmt.Errorf("listeners[%d]: address: %w", i, withAdvice(l.Address, err))
		}
		p.listeners = append(p.listeners, gateway.Listener{Of: &l.Of, Socket: ln, TLS: s.ListenerTLS[i]})
	}
	return nil
}

// withAdvice says what to do about an address that cannot be listened on.
func withAdvice(addr string, err error) error {
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("%s is in use by another program; name another address", addr)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return fmt.Errorf("%s is not an address of this machine; name one that it has", addr)
	case errors.Is(err, syscall.ENOENT):
		return fmt.Errorf("%s: its directory does not exist; create it first", addr)
	}
	return err
}

func openListener(l *config.Listener) (net.Listener, error) {
	if path := l.Socket(); path != "" {
		return unixsocket.Listen(path, l.Mode)
	}
	at, err := ownAddress(l.Address)
	if err != nil {
		return nil, err
	}
	return net.Listen("tcp", at)
}
