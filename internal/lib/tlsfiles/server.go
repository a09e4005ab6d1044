package tlsfiles

import (
	"crypto/tls"
	"fmt"

	"github.com/capgate/capgate/internal/lib/strictyaml"
)

// Server is TLS of a port. It is off when CertFile is empty.
type Server struct {
	// Certificate chain, PEM.
	CertFile string `yaml:"cert_file" kind:"file" required:""`
	// Private key of the certificate, PEM.
	KeyFile string `yaml:"key_file" kind:"file" required:""`
	// Authorities of client certificates, PEM. Default none, and no certificate is requested.
	ClientCAFile string `yaml:"client_ca_file" kind:"file"`
	// optional permits connections without a certificate, and verifies one that is sent; require needs one.
	Optional bool `yaml:"client_auth" enum:"require,optional" default:"require"`
}

// Check checks that client_auth has an effect.
func (s *Server) Check(at strictyaml.At) {
	if at.Has("client_auth") && s.ClientCAFile == "" {
		at.Missing("client_ca_file", "required by client_auth: the authorities of client certificates")
	}
}

// Files returns the names of the files, some of which may be empty.
func (s *Server) Files() []string { return []string{s.CertFile, s.KeyFile, s.ClientCAFile} }

// Read reads the files. It returns nil without an error for a cleartext port. Servers with the same secrets and the
// same certificate resume each other's sessions, unless they accept client certificates: a holder of the secrets could
// make a ticket with any certificate.
//
// The configuration of a connection is a copy of the result, whose NextProtos are those of an HTTP server.
func (s *Server) Read(files Files, secrets ...[]byte) (*tls.Config, error) {
	if s.CertFile == "" {
		return nil, nil
	}
	pair, err := KeyPair(s.CertFile, s.KeyFile, files)
	if err != nil {
		return nil, fmt.Errorf("tls: %w", err)
	}
	t := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair},
		NextProtos: []string{"h2", "http/1.1"}}
	if s.ClientCAFile != "" {
		if t.ClientCAs, err = CertPool(s.ClientCAFile, files); err != nil {
			return nil, fmt.Errorf("tls.client_ca_file: %w", err)
		}
		t.ClientAuth = tls.RequireAndVerifyClientCert
		if s.Optional {
			t.ClientAuth = tls.VerifyClientCertIfGiven
		}
		secrets = nil
	}
	limitSessions(t, secrets)
	return t, nil
}
