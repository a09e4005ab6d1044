package settings

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"slices"

	"github.com/capgate/capgate/internal/config"
	"github.com/capgate/capgate/internal/lib/tlsfiles"
)

// sameTLS reports whether a port's certificates, and the secrets, are those of before.
func (s *Settings) sameTLS(before *Settings, t, was *tlsfiles.Server) bool {
	return *t == *was && s.Files.agree(before.Files, t.Files()...) &&
		slices.EqualFunc(s.Secrets, before.Secrets, bytes.Equal)
}

// readListenerTLS reads the certificates of listeners. Unchanged ones of the same address are reused.
func (s *Settings) readListenerTLS(before *Settings) error {
	s.ListenerTLS = make([]*tls.Config, len(s.Config.Listeners))
	var problems []error
	for i := range s.Config.Listeners {
		l := &s.Config.Listeners[i]
		secure, err := l.TLS.Read(s.Files, s.Secrets...)
		if err != nil {
			problems = append(problems, fmt.Errorf("listeners[%d]: %w", i, err))
			continue
		}
		if at := before.Listener(l.Address); at >= 0 && s.sameTLS(before, &l.TLS, &before.Config.Listeners[at].TLS) {
			secure = before.ListenerTLS[at]
		}
		s.ListenerTLS[i] = secure
	}
	return errors.Join(problems...)
}

// Listener returns the index of the listener at an address, or -1. s may be nil.
func (s *Settings) Listener(address string) int {
	if s == nil {
		return -1
	}
	return slices.IndexFunc(s.Config.Listeners, func(l config.Listener) bool { return l.Address == address })
}

// readBackendTLS reads certificates and authorities for connections to fleets and Shields. Unchanged ones are
// reused.
func (s *Settings) readBackendTLS(before *Settings) (problems []error) {
	failed := map[tlsfiles.Client]bool{}
	read := func(whose string, t tlsfiles.Client) {
		if !t.Enabled || s.Backends[t] != nil || failed[t] {
			return
		}
		secure, err := t.Read(s.Files)
		if err != nil {
			failed[t] = true
			problems = append(problems, fmt.Errorf("%s: %w", whose, err))
			return
		}
		if before != nil && before.Backends[t] != nil && s.Files.agree(before.Files, t.Files()...) {
			secure = before.Backends[t]
		}
		s.Backends[t] = secure
	}
	for i := range s.Config.Fleets {
		read("fleet "+s.Config.Fleets[i].Capability, s.Config.Fleets[i].TLS)
	}
	for i := range s.Config.Shields {
		read("shield "+s.Config.Shields[i].Name, s.Config.Shields[i].Files)
	}
	read("traces", s.Config.Traces.Files)
	return problems
}
