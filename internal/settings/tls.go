package settings

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"

	"github.com/capgate/capgate/internal/config"
)

// serverTLS returns the TLS configuration of the public port; nil without an error for a cleartext port.
func serverTLS(c config.ServerTLS, files Files) (*tls.Config, error) {
	if c.CertFile == "" {
		return nil, nil
	}
	pair, err := KeyPair(c.CertFile, c.KeyFile, files)
	if err != nil {
		return nil, fmt.Errorf("tls: %w", err)
	}
	t := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}}
	if c.ClientCAFile != "" {
		if t.ClientCAs, err = CertPool(c.ClientCAFile, files); err != nil {
			return nil, fmt.Errorf("tls.client_ca_file: %w", err)
		}
		t.ClientAuth = tls.RequireAndVerifyClientCert
		if c.Optional {
			t.ClientAuth = tls.VerifyClientCertIfGiven
		}
	}
	return t, nil
}

// backendTLS loads what connections to a fleet's backends or to a shield, which is whose,
// show and ask. An empty ServerName stands for the host that is dialled.
func backendTLS(whose string, c config.BackendTLS, files Files) (*tls.Config, error) {
	t := &tls.Config{
		MinVersion:         tls.VersionTLS12,
		ServerName:         c.ServerName,
		InsecureSkipVerify: c.Insecure, // the operator wrote insecure: true, which the documentation keeps for tests
	}
	var err error
	if c.CAFile != "" {
		if t.RootCAs, err = CertPool(c.CAFile, files); err != nil {
			return nil, fmt.Errorf("%s: tls.ca_file: %w", whose, err)
		}
	}
	if c.CertFile != "" {
		pair, err := KeyPair(c.CertFile, c.KeyFile, files)
		if err != nil {
			return nil, fmt.Errorf("%s: tls: %w", whose, err)
		}
		t.Certificates = []tls.Certificate{pair}
	}
	return t, nil
}

// KeyPair reads both files even if the first is invalid, so that a change of either is detected.
func KeyPair(certFile, keyFile string, files Files) (tls.Certificate, error) {
	cert, certErr := files.Read(certFile)
	key, keyErr := files.Read(keyFile)
	if err := cmp.Or(certErr, keyErr); err != nil {
		return tls.Certificate{}, err
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return pair, wrongFile(certFile, "%s and %s: %w", certFile, keyFile, err)
	}
	return pair, nil
}

// CertPool reads a PEM file of certificate authorities.
func CertPool(file string, files Files) (*x509.CertPool, error) {
	pem, err := files.Read(file)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, wrongFile(file, "%s contains no PEM certificate", file)
	}
	return pool, nil
}

// readListenerTLS reads the certificates of listeners. Unchanged ones are reused.
func (s *Settings) readListenerTLS(before *Settings) error {
	s.ListenerTLS = make([]*tls.Config, len(s.Config.Listeners))
	var problems []error
	for i := range s.Config.Listeners {
		t := s.Config.Listeners[i].TLS
		secure, err := serverTLS(t, s.Files)
		if err != nil {
			problems = append(problems, fmt.Errorf("listeners[%d]: %w", i, err))
			continue
		}
		if before != nil && i < len(before.ListenerTLS) && before.Config.Listeners[i].TLS == t &&
			s.Files.agree(before.Files, t.CertFile, t.KeyFile, t.ClientCAFile) {
			secure = before.ListenerTLS[i]
		}
		s.ListenerTLS[i] = secure
	}
	return errors.Join(problems...)
}

// readBackendTLS reads certificates and authorities for connections to fleets and Shields. Unchanged ones are
// reused.
func (s *Settings) readBackendTLS(before *Settings) (problems []error) {
	failed := map[config.BackendTLS]bool{}
	read := func(whose string, t config.BackendTLS) {
		if !t.Enabled || s.Backends[t] != nil || failed[t] {
			return
		}
		secure, err := backendTLS(whose, t, s.Files)
		if err != nil {
			failed[t] = true
			problems = append(problems, err)
			return
		}
		if before != nil && before.Backends[t] != nil && s.Files.agree(before.Files, t.CAFile, t.CertFile, t.KeyFile) {
			secure = before.Backends[t]
		}
		s.Backends[t] = secure
	}
	for i := range s.Config.Fleets {
		read("fleet "+s.Config.Fleets[i].Capability, s.Config.Fleets[i].TLS)
	}
	for i := range s.Config.Shields {
		read("shield "+s.Config.Shields[i].Name, s.Config.Shields[i].TLS)
	}
	read("traces", s.Config.Traces.TLS)
	return problems
}
