package settings

import (
	"fmt"

	"github.com/capgate/capgate/internal/lib/tlsfiles"
)

// readIssuers reads the certificate authorities of the issuers of tokens.
func (s *Settings) readIssuers() (problems []error) {
	for _, i := range s.Config.Issuers {
		if i.CAFile != "" {
			var err error
			if i.Source.Roots, err = tlsfiles.CertPool(i.CAFile, s.Files); err != nil {
				problems = append(problems, fmt.Errorf("issuer %s: ca_file: %w", i.Name, err))
			}
		}
		for _, c := range s.Config.Operators.SignIn {
			if c.Issuer == i.Name {
				i.ClientIDs = append(i.ClientIDs, c.ID)
			}
		}
		s.Issuers = append(s.Issuers, i)
	}
	return problems
}
