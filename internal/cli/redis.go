package cli

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"strings"

	"github.com/capgate/capgate/internal/config"
	"github.com/capgate/capgate/internal/redisstore"
	"github.com/capgate/capgate/internal/telemetry"
)

// openStore opens what replicas share. Whether Redis is there now makes no difference.
func openStore(c redisstore.Config, log *slog.Logger) (*redisstore.Store, error) {
	c.Log = log
	return redisstore.Open(c)
}

// storeConfig loads the files that a configuration names.
func storeConfig(c config.Redis, files fingerprints) (redisstore.Config, error) {
	options := redisstore.Config{URL: c.URL, Timeout: c.Timeout,
		WaitReplicas: c.WaitReplicas, WaitTimeout: c.WaitTimeout}
	var err error
	if c.PasswordFile != "" {
		if options.Password, err = readSecret(c.PasswordFile, files); err != nil {
			return options, fmt.Errorf("redis.password_file: %w", err)
		}
	}
	if c.StoreKeyFile != "" {
		options.AcceptUnsigned = c.Unsigned
		if options.StoreKeys, err = readKeys(c.StoreKeyFile, files); err != nil {
			return options, fmt.Errorf("redis.store_key_file: %w", err)
		}
	}
	options.TLS = &tls.Config{MinVersion: tls.VersionTLS12, ServerName: c.ServerName}
	if c.CAFile != "" {
		if options.TLS.RootCAs, err = certPool(c.CAFile, files); err != nil {
			return options, fmt.Errorf("redis.ca_file: %w", err)
		}
	}
	if c.CertFile != "" {
		pair, err := keyPair(c.CertFile, c.KeyFile, files)
		if err != nil {
			return options, fmt.Errorf("redis: %w", err)
		}
		options.TLS.Certificates = []tls.Certificate{pair}
	}
	return options, nil
}

// readSecret reads a file that holds one line.
func readSecret(file string, files fingerprints) (string, error) {
	data, err := files.read(file)
	if err != nil {
		return "", err
	}
	secret := strings.TrimRight(string(data), "\r\n")
	if secret == "" {
		return "", wrongFile(file, "%s is empty", file)
	}
	return secret, nil
}

// redisStats is how metrics see a store.
func redisStats(s *redisstore.Store) func() telemetry.Redis {
	return func() telemetry.Redis {
		stats := s.Stats()
		r := telemetry.Redis{Commands: map[string]int64{}, Errors: stats.Errors, Malformed: stats.Malformed,
			Unreplicated: stats.Unreplicated, Up: !stats.Unavailable}
		r.Rejected = map[string]int64{}
		for kind, n := range stats.Rejected {
			r.Rejected[kind.String()] = n
		}
		for purpose, n := range stats.Commands {
			r.Commands[purpose.String()] = n
		}
		return r
	}
}

// redisWarnings are what operators should change about a store.
func (p *process) redisWarnings() func() []string {
	s := p.store
	return func() (all []string) {
		if p.decider.Stats().Lost {
			all = append(all, "redis has lost the rules: restore them, or accept the loss with capgate policy accept-loss")
		}
		if !s.Replicated() {
			all = append(all, "redis has replicas and redis.wait_replicas is not set: after a failover an "+
				"approval may be used twice")
		}
		if s.AcceptsUnsigned() {
			all = append(all, "redis.store_key_accept_unsigned is on: unsigned records are accepted")
		}
		return all
	}
}

// unread returns the state in Redis that this replica has not read since its start: it would reject calls for that.
func (p *process) unread(without bool) func() []string {
	if without {
		return nil
	}
	return func() (all []string) {
		if p.rules != nil && !p.decider.Stats().Read {
			all = append(all, "rules")
		}
		if p.auth.stored != nil && !p.auth.stored.Stats().Read {
			all = append(all, "keys and tenants")
		}
		return all
	}
}

// redisState is how operators see a store: embedded, ok or away.
func redisState(s *redisstore.Store) func() string {
	return func() string {
		switch stats := s.Stats(); {
		case stats.Embedded:
			return "embedded"
		case stats.Unavailable:
			return "away"
		default:
			return "ok"
		}
	}
}
