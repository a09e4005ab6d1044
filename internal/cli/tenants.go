package cli

import (
	"fmt"
	"strings"

	"github.com/capgate/capgate/internal/config"
	"github.com/capgate/capgate/internal/tenant"
)

// readTenants reads the files of API keys. No error quotes their content.
func (s *settings) readTenants() (problems []error) {
	if file := s.cfg.PepperFile; file != "" {
		var err error
		if s.pepper, err = readPepper(file, s.files); err != nil {
			problems = append(problems, fmt.Errorf("pepper_file: %w", err))
		}
	}
	for i := range s.cfg.Tenants {
		t := &s.cfg.Tenants[i]
		for j := range t.Keys {
			k, err := s.readKey(t.ID, &t.Keys[j])
			if err != nil {
				problems = append(problems, fmt.Errorf("tenant %s, key %s: %w", t.ID, t.Keys[j].ID, err))
				continue
			}
			s.keys = append(s.keys, k)
		}
	}
	return problems
}

func (s *settings) readKey(of string, k *config.Key) (tenant.Key, error) {
	hash, err := s.readHash(k.Hash, k.HashFile)
	return tenant.Key{ID: k.ID, Tenant: of, Name: k.Name, Hash: hash, Scopes: k.Scopes, Asserts: k.Asserts,
		Expires: k.Expires}, err
}

// readHash returns the hash of a key's secret: hash, or that in a file unless its name is "".
func (s *settings) readHash(hash tenant.Hash, file string) (tenant.Hash, error) {
	if file == "" {
		return hash, nil
	}
	data, err := s.files.read(file)
	if err != nil {
		return hash, fmt.Errorf("hash_file: %w", err)
	}
	hash, ok := tenant.ParseHash(strings.TrimSpace(string(data)))
	switch {
	case !ok:
		return hash, wrongFile(file, "hash_file: %s contains no hash, as capgate keys new prints it", file)
	case hash.Peppered() && s.cfg.PepperFile == "":
		return hash, wrongFile(file, "hash_file: the hash in %s was made with a pepper, but pepper_file is not set", file)
	}
	return hash, nil
}

// tenants are the settings of the tenants in the file, by id.
func (s *settings) tenants() map[string]*tenant.Settings {
	all := make(map[string]*tenant.Settings, len(s.cfg.Tenants))
	for i := range s.cfg.Tenants {
		t := &s.cfg.Tenants[i]
		limits := s.cfg.Limits
		if t.Limits != nil {
			limits = *t.Limits
		}
		all[t.ID] = &tenant.Settings{ID: t.ID, Capabilities: t.Capabilities, Limits: limits}
	}
	return all
}

// single are the settings of the one tenant of a gateway without tenants; nil where it has tenants.
func (s *settings) single(multi bool) *tenant.Settings {
	if multi {
		return nil
	}
	return &tenant.Settings{ID: tenant.Default, Limits: s.cfg.Limits}
}

// certificates returns the certificate rules of the file.
func (s *settings) certificates() []tenant.Certificate {
	rules := make([]tenant.Certificate, len(s.cfg.Certificates))
	for i, c := range s.cfg.Certificates {
		rules[i] = tenant.Certificate{SPIFFE: c.SPIFFE, DNS: c.DNS, Tenant: c.Tenant, Scopes: c.Scopes, Asserts: c.Asserts}
	}
	return rules
}
