package checks

import (
	"github.com/capgate/capgate/gateway/filter"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/tenant"
)

// Restrict rejects a call whose caller may do one thing only, if it is another. Which session the call is
// of, its signature says, and no header of the caller's.
func Restrict(c *filter.Call) *call.Refusal {
	if c.Principal.Only == nil {
		return nil
	}
	if c.Fleet.Capability != c.Principal.Only.Capability || string(c.Fields().Artifact) != c.Principal.Only.Artifact {
		return tenant.RefuseSignature()
	}
	if c.Principal.Only.Session == "" {
		c.Stream.DropHeader(filter.SessionHeader)
	} else {
		c.Stream.SetHeader(filter.SessionHeader, c.Principal.Only.Session)
	}
	return nil
}
