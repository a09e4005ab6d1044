package settings

import (
	"crypto/tls"
	"errors"
	"fmt"

	"github.com/capgate/capgate/internal/lib/tlsfiles"
)

// readListenerTLS reads the certificates of listeners. Unchanged ones are reused.
func (s *Settings) readListenerTLS(before *Settings) error {
	s.ListenerTLS = make([]*tls.Config, len(s.Config.Listeners))
	var problems []error
	for i := range s.Config.Listeners {
		t := s.Config.Listeners[i].TLS
		secure, err := t.Read(s.Files)
		if err != nil {
			problems = append(problems, fmt.Errorf("listeners[%d]: %w", i, err))
			continue
		}
		if before != nil && i < len(before.ListenerTLS) && before.Config.Listeners[i].TLS == t &&
			s.Files.agree(before.Files, t.Files()...) {
			secure = before.ListenerTLS[i]
		}
		s.ListenerTLS[i] = secure
	}
	return errors.Join(problems...)
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
