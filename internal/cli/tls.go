package cli

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"

	"github.com/capgate/capgate/internal/config"
)

// serverTLS returns the TLS configuration of the public port; nil without an error for a cleartext port.
func serverTLS(c config.ServerTLS, files fingerprints) (*tls.Config, error) {
	if c.CertFile == "" {
		return nil, nil
	}
	pair, err := keyPair(c.CertFile, c.KeyFile, files)
	if err != nil {
		return nil, fmt.Errorf("tls: %w", err)
	}
	t := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}}
	if c.ClientCAFile != "" {
		if t.ClientCAs, err = certPool(c.ClientCAFile, files); err != nil {
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
func backendTLS(whose string, c config.BackendTLS, files fingerprints) (*tls.Config, error) {
	t := &tls.Config{
		MinVersion:         tls.VersionTLS12,
		ServerName:         c.ServerName,
		InsecureSkipVerify: c.Insecure, // the operator wrote insecure: true, which the documentation keeps for tests
	}
	var err error
	if c.CAFile != "" {
		if t.RootCAs, err = certPool(c.CAFile, files); err != nil {
			return nil, fmt.Errorf("%s: tls.ca_file: %w", whose, err)
		}
	}
	if c.CertFile != "" {
		pair, err := keyPair(c.CertFile, c.KeyFile, files)
		if err != nil {
			return nil, fmt.Errorf("%s: tls: %w", whose, err)
		}
		t.Certificates = []tls.Certificate{pair}
	}
	return t, nil
}

// keyPair reads both files even if the first is invalid, so that a change of either is detected.
func keyPair(certFile, keyFile string, files fingerprints) (tls.Certificate, error) {
	cert, certErr := files.read(certFile)
	key, keyErr := files.read(keyFile)
	if err := cmp.Or(certErr, keyErr); err != nil {
		return tls.Certificate{}, err
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return pair, wrongFile(certFile, "%s and %s: %w", certFile, keyFile, err)
	}
	return pair, nil
}

func certPool(file string, files fingerprints) (*x509.CertPool, error) {
	pem, err := files.read(file)
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
func (s *settings) readListenerTLS(before *settings) error {
	s.listenerTLS = make([]*tls.Config, len(s.cfg.Listeners))
	var problems []error
	for i := range s.cfg.Listeners {
		t := s.cfg.Listeners[i].TLS
		secure, err := serverTLS(t, s.files)
		if err != nil {
			problems = append(problems, fmt.Errorf("listeners[%d]: %w", i, err))
			continue
		}
		if before != nil && i < len(before.listenerTLS) && before.cfg.Listeners[i].TLS == t &&
			s.files.agree(before.files, t.CertFile, t.KeyFile, t.ClientCAFile) {
			secure = before.listenerTLS[i]
		}
		s.listenerTLS[i] = secure
	}
	return errors.Join(problems...)
}

// readBackendTLS reads certificates and authorities for connections to fleets and Shields. Unchanged ones are
// reused.
func (s *settings) readBackendTLS(before *settings) (problems []error) {
	failed := map[config.BackendTLS]bool{}
	read := func(whose string, t config.BackendTLS) {
		if !t.Enabled || s.backends[t] != nil || failed[t] {
			return
		}
		secure, err := backendTLS(whose, t, s.files)
		if err != nil {
			failed[t] = true
			problems = append(problems, err)
			return
		}
		if before != nil && before.backends[t] != nil && s.files.agree(before.files, t.CAFile, t.CertFile, t.KeyFile) {
			secure = before.backends[t]
		}
		s.backends[t] = secure
	}
	for i := range s.cfg.Fleets {
		read("fleet "+s.cfg.Fleets[i].Capability, s.cfg.Fleets[i].TLS)
	}
	for i := range s.cfg.Shields {
		read("shield "+s.cfg.Shields[i].Name, s.cfg.Shields[i].TLS)
	}
	read("traces", s.cfg.Traces.TLS)
	return problems
}
