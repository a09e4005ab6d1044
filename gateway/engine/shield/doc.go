// Package shield provides a client of OpenParallax Shield, an authorizer for policy/extauthz.
//
//	grpc.go   openparallax.v1.ShieldService/Evaluate
//	http.go   POST /evaluate of the standalone server
//
// Shield has two forms of a request: type and payload, or tool and arguments. Both are set, so that every server sees
// the arguments. Errors contain neither arguments nor Shield's reasoning.
package shield

import (
	"errors"

	"github.com/capgate/capgate/policy/extauthz"
)

// Dial returns the client of a Shield, which must have either an address or a URL. It connects when first used.
func Dial(c *extauthz.Config) (extauthz.Client, error) {
	switch {
	case c.Address != "" && c.URL == "":
		return newGRPC(c.Address, c.TLS)
	case c.URL != "" && c.Address == "":
		return newHTTP(c.URL, c.TLS)
	}
	return nil, errors.New("exactly one of address and URL is required")
}
