package settings

import "fmt"

// readSignIn reads the secrets of this gateway as a client of issuers.
func (s *Settings) readSignIn() (problems []error) {
	for _, c := range s.Config.Operators.SignIn {
		if c.SecretFile != "" {
			var err error
			if c.Secret, err = readSecret(c.SecretFile, s.Files); err != nil {
				problems = append(problems, fmt.Errorf("operators.sign_in, issuer %s: client_secret_file: %w", c.Issuer,
					err))
			}
		}
		s.SignIn = append(s.SignIn, c)
	}
	return problems
}

// readOperators reads the files of operators.
func (s *Settings) readOperators(before *Settings) (problems []error) {
	o := &s.Config.Operators
	var err error
	if s.AdminTLS, err = o.TLS.Read(s.Files); err != nil {
		problems = append(problems, fmt.Errorf("operators: %w", err))
	}
	if before != nil && before.Config.Operators.TLS == o.TLS &&
		s.Files.agree(before.Files, o.TLS.Files()...) {
		s.AdminTLS = before.AdminTLS
	}
	for _, k := range o.Keys {
		if k.Hash, err = s.readHash(k.Hash, k.HashFile); err != nil {
			problems = append(problems, fmt.Errorf("operators, key %s: %w", k.ID, err))
			continue
		}
		s.OperatorKeys = append(s.OperatorKeys, k)
	}
	return problems
}
