package tlsfiles

import (
	"crypto/tls"
	"fmt"

	"github.com/capgate/capgate/internal/lib/strictyaml"
)

// Client is TLS to servers: to the backends of a fleet, to a shield, or to a collector.
type Client struct {
	Enabled bool `yaml:",present"` // the file has the block, even an empty one
	// Authorities of the servers, PEM. Default the system's.
	CAFile string `yaml:"ca_file" kind:"file"`
	// Client certificate, PEM, with key_file.
	CertFile string `yaml:"cert_file" kind:"file"`
	// Private key of the client certificate, PEM.
	KeyFile string `yaml:"key_file" kind:"file"`
	// Name in their certificates. Default the host of the address.
	ServerName string `yaml:"server_name" kind:"server_name"`
	// true accepts any certificate; for tests only, and excludes ca_file.
	Insecure bool `yaml:"insecure" default:"false"`
}

// Check checks that fields belong together.
func (c *Client) Check(at strictyaml.At) {
	if (c.CertFile == "") != (c.KeyFile == "") {
		at.Fail("", "cert_file and key_file belong together; give both or neither")
	}
	if c.Insecure && c.CAFile != "" {
		at.Fail("insecure", "true accepts any certificate, so ca_file has no effect; give one of the two")
	}
}

// Files returns the names of the files, some of which may be empty.
func (c *Client) Files() []string { return []string{c.CAFile, c.CertFile, c.KeyFile} }

// Read reads the files. Without a ServerName the result has none, which stands for the host that is dialed.
func (c *Client) Read(files Files) (t *tls.Config, err error) {
	t = &tls.Config{
		MinVersion:         tls.VersionTLS12,
		ServerName:         c.ServerName,
		InsecureSkipVerify: c.Insecure, // the operator wrote insecure: true, which the documentation keeps for tests
	}
	if c.CAFile != "" {
		if t.RootCAs, err = CertPool(c.CAFile, files); err != nil {
			return nil, fmt.Errorf("tls.ca_file: %w", err)
		}
	}
	if c.CertFile != "" {
		pair, err := KeyPair(c.CertFile, c.KeyFile, files)
		if err != nil {
			return nil, fmt.Errorf("tls: %w", err)
		}
		t.Certificates = []tls.Certificate{pair}
	}
	return t, nil
}
