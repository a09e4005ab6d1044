package settings

import (
	"fmt"

	"github.com/capgate/capgate/gateway/admin/guard"
	"github.com/capgate/capgate/gateway/frontdoor/signin"
	"github.com/capgate/capgate/internal/tenant/token"
)

// readSignIn reads the secrets of this gateway as a client of issuers.
func (s *Settings) readSignIn() (problems []error) {
	o := &s.Config.Operators
	for i := range o.SignIn {
		c := &o.SignIn[i]
		of := signin.Issuer{Client: token.Client{Issuer: c.Issuer, ID: c.ClientID, Scopes: c.Scopes}}
		if c.ClientSecretFile != "" {
			var err error
			if of.Secret, err = readSecret(c.ClientSecretFile, s.Files); err != nil {
				problems = append(problems, fmt.Errorf("operators.sign_in, issuer %s: client_secret_file: %w", c.Issuer,
					err))
			}
		}
		s.SignIn = append(s.SignIn, of)
	}
	return problems
}

// readOperators reads the files of operators.
func (s *Settings) readOperators(before *Settings) (problems []error) {
	o := &s.Config.Operators
	var err error
	if s.AdminTLS, err = serverTLS(o.TLS, s.Files); err != nil {
		problems = append(problems, fmt.Errorf("operators: %w", err))
	}
	if before != nil && before.Config.Operators.TLS == o.TLS &&
		s.Files.agree(before.Files, o.TLS.CertFile, o.TLS.KeyFile, o.TLS.ClientCAFile) {
		s.AdminTLS = before.AdminTLS
	}
	for i := range o.Keys {
		k := &o.Keys[i]
		hash, err := s.readHash(k.Hash, k.HashFile)
		if err != nil {
			problems = append(problems, fmt.Errorf("operators, key %s: %w", k.ID, err))
			continue
		}
		s.OperatorKeys = append(s.OperatorKeys,
			guard.Key{ID: k.ID, Name: k.Name, Tenant: k.Tenant, Hash: hash, Roles: k.Roles, Expires: k.Expires})
	}
	return problems
}
