package settings

import (
	"crypto/tls"
	"fmt"

	"github.com/capgate/capgate/internal/lib/tlsfiles"
	"github.com/capgate/capgate/internal/redisstore"
)

// storeConfig loads the files that a configuration names.
func storeConfig(c redisstore.Config, files Files) (_ redisstore.Config, err error) {
	if c.PasswordFile != "" {
		if c.Password, err = readSecret(c.PasswordFile, files); err != nil {
			return c, fmt.Errorf("redis.password_file: %w", err)
		}
	}
	c.TLS = &tls.Config{MinVersion: tls.VersionTLS12, ServerName: c.ServerName}
	if c.CAFile != "" {
		if c.TLS.RootCAs, err = tlsfiles.CertPool(c.CAFile, files); err != nil {
			return c, fmt.Errorf("redis.ca_file: %w", err)
		}
	}
	if c.CertFile != "" {
		pair, err := tlsfiles.KeyPair(c.CertFile, c.KeyFile, files)
		if err != nil {
			return c, fmt.Errorf("redis: %w", err)
		}
		c.TLS.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}
