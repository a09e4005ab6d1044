package cli

import (
	"fmt"

	"github.com/capgate/capgate/gateway/admin/guard"
	"github.com/capgate/capgate/gateway/frontdoor/signin"
	"github.com/capgate/capgate/internal/tenant/token"
)

// readSignIn reads the secrets of this gateway as a client of issuers, and the keys of sessions.
func (s *settings) readSignIn() (problems []error) {
	o := &s.cfg.Operators
	for i := range o.SignIn {
		c := &o.SignIn[i]
		of := signin.Issuer{Client: token.Client{Issuer: c.Issuer, ID: c.ClientID, Scopes: c.Scopes}, Title: c.Title}
		if c.ClientSecretFile != "" {
			var err error
			if of.Secret, err = readSecret(c.ClientSecretFile, s.files); err != nil {
				problems = append(problems, fmt.Errorf("operators.sign_in, issuer %s: client_secret_file: %w", c.Issuer, err))
			}
		}
		s.signIn = append(s.signIn, of)
	}
	if file := o.Session.KeyFile; file != "" {
		var err error
		if s.sessionKeys, err = readKeys(file, s.files); err != nil {
			problems = append(problems, fmt.Errorf("operators.session.key_file: %w", err))
		}
	}
	return problems
}

// readOperators reads the files of operators.
func (s *settings) readOperators(before *settings) (problems []error) {
	o := &s.cfg.Operators
	var err error
	if s.adminTLS, err = serverTLS(o.TLS, s.files); err != nil {
		problems = append(problems, fmt.Errorf("operators: %w", err))
	}
	if before != nil && before.cfg.Operators.TLS == o.TLS &&
		s.files.agree(before.files, o.TLS.CertFile, o.TLS.KeyFile, o.TLS.ClientCAFile) {
		s.adminTLS = before.adminTLS
	}
	for i := range o.Keys {
		k := &o.Keys[i]
		hash, err := s.readHash(k.Hash, k.HashFile)
		if err != nil {
			problems = append(problems, fmt.Errorf("operators, key %s: %w", k.ID, err))
			continue
		}
		s.operatorKeys = append(s.operatorKeys,
			guard.Key{ID: k.ID, Name: k.Name, Tenant: k.Tenant, Hash: hash, Roles: k.Roles, Expires: k.Expires})
	}
	return problems
}
