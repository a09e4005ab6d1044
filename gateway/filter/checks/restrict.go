package checks

import (
	"github.com/capgate/capgate/gateway/filter"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/tenant"
)

// Restrict rejects other calls of a caller that may make a single kind of call. The session is that of the signature,
// not of the headers.
func Restrict(c *filter.Call) *call.Refusal {
	if c.Credential.Only == nil {
		return nil
	}
	if c.Fleet.Capability != c.Credential.Only.Capability || string(c.Fields().Artifact) != c.Credential.Only.Artifact {
		return tenant.RefuseSignature()
	}
	if c.Credential.Only.Session == "" {
		c.Stream.DropHeader(filter.SessionHeader)
	} else {
		c.Stream.SetHeader(filter.SessionHeader, c.Credential.Only.Session)
	}
	return nil
}
