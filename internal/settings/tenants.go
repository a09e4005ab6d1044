package settings

import (
	"fmt"
	"strings"

	"github.com/capgate/capgate/internal/config"
	"github.com/capgate/capgate/internal/tenant"
)

// readTenants reads the files of API keys. No error quotes their content.
func (s *Settings) readTenants() (problems []error) {
	if file := s.Config.PepperFile; file != "" {
		var err error
		if s.Pepper, err = ReadPepper(file, s.Files); err != nil {
			problems = append(problems, fmt.Errorf("pepper_file: %w", err))
		}
	}
	for i := range s.Config.Tenants {
		t := &s.Config.Tenants[i]
		for j := range t.Keys {
			k, err := s.readKey(t.ID, &t.Keys[j])
			if err != nil {
				problems = append(problems, fmt.Errorf("tenant %s, key %s: %w", t.ID, t.Keys[j].ID, err))
				continue
			}
			s.Keys = append(s.Keys, k)
		}
	}
	return problems
}

func (s *Settings) readKey(of string, k *config.Key) (tenant.Key, error) {
	hash, err := s.readHash(k.Hash, k.HashFile)
	return tenant.Key{ID: k.ID, Tenant: of, Name: k.Name, Hash: hash, Scopes: k.Scopes, Asserts: k.Asserts,
		Expires: k.Expires}, err
}

// readHash returns the hash of a key's secret: hash, or that in a file unless its name is "".
func (s *Settings) readHash(hash tenant.Hash, file string) (tenant.Hash, error) {
	if file == "" {
		return hash, nil
	}
	data, err := s.Files.Read(file)
	if err != nil {
		return hash, fmt.Errorf("hash_file: %w", err)
	}
	hash, ok := tenant.ParseHash(strings.TrimSpace(string(data)))
	switch {
	case !ok:
		return hash, wrongFile(file, "hash_file: %s contains no hash, as capgate keys new prints it", file)
	case hash.Peppered() && s.Config.PepperFile == "":
		return hash, wrongFile(file, "hash_file: the hash in %s was made with a pepper, but pepper_file is not set",
			file)
	}
	return hash, nil
}

// Tenants returns the settings of the tenants in the file, by id.
func (s *Settings) Tenants() map[string]*tenant.Settings {
	all := make(map[string]*tenant.Settings, len(s.Config.Tenants))
	for i := range s.Config.Tenants {
		t := &s.Config.Tenants[i]
		limits := s.Config.Limits
		if t.Limits != nil {
			limits = *t.Limits
		}
		all[t.ID] = &tenant.Settings{ID: t.ID, Capabilities: t.Capabilities, Limits: limits}
	}
	return all
}

// Single returns the settings of the one tenant of a gateway without tenants; nil where it has tenants.
func (s *Settings) Single(multi bool) *tenant.Settings {
	if multi {
		return nil
	}
	return &tenant.Settings{ID: tenant.Default, Limits: s.Config.Limits}
}

// Certificates returns the certificate rules of the file.
func (s *Settings) Certificates() []tenant.Certificate {
	rules := make([]tenant.Certificate, len(s.Config.Certificates))
	for i, c := range s.Config.Certificates {
		rules[i] = tenant.Certificate{SPIFFE: c.SPIFFE, DNS: c.DNS, Tenant: c.Tenant, Scopes: c.Scopes,
			Asserts: c.Asserts}
	}
	return rules
}
