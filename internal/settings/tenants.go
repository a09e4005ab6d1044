package settings

import (
	"fmt"
	"strings"

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
			k, err := t.Keys[j], error(nil)
			if k.Hash, err = s.readHash(k.Hash, k.HashFile); err != nil {
				problems = append(problems, fmt.Errorf("tenant %s, key %s: %w", t.ID, k.ID, err))
				continue
			}
			k.Tenant = t.ID
			s.Keys = append(s.Keys, k)
		}
	}
	return problems
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
		all[t.ID] = t.Settings(s.Config.Limits)
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
