package settings

import (
	"crypto/tls"
	"fmt"

	"github.com/capgate/capgate/internal/config"
	"github.com/capgate/capgate/internal/redisstore"
)

// storeConfig loads the files that a configuration names.
func storeConfig(c config.Redis, files Files) (redisstore.Config, error) {
	options := redisstore.Config{URL: c.URL, Timeout: c.Timeout, WaitReplicas: c.WaitReplicas,
		AcceptUnsigned: c.Unsigned}
	var err error
	if c.PasswordFile != "" {
		if options.Password, err = readSecret(c.PasswordFile, files); err != nil {
			return options, fmt.Errorf("redis.password_file: %w", err)
		}
	}
	options.TLS = &tls.Config{MinVersion: tls.VersionTLS12, ServerName: c.ServerName}
	if c.CAFile != "" {
		if options.TLS.RootCAs, err = CertPool(c.CAFile, files); err != nil {
			return options, fmt.Errorf("redis.ca_file: %w", err)
		}
	}
	if c.CertFile != "" {
		pair, err := KeyPair(c.CertFile, c.KeyFile, files)
		if err != nil {
			return options, fmt.Errorf("redis: %w", err)
		}
		options.TLS.Certificates = []tls.Certificate{pair}
	}
	return options, nil
}
