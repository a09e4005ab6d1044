package filter

import (
	"github.com/capgate/capgate/gateway/engine"
	"github.com/capgate/capgate/gateway/filter"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/tenant"
)

// Owns reports whether a path is that of an engine's method. The filters of this package, except Foreign, must only be
// used for such calls.
func Owns(path string) bool { return engine.Lookup(path) != nil }

// method returns the called method.
func method(c *filter.Call) *engine.Method { return engine.Lookup(c.Info.Path) }

// Scope rejects calls whose caller lacks the scope of their method.
func Scope(c *filter.Call) *call.Refusal {
	switch scope := method(c).Scope; {
	case c.Credential.Only != nil:
		return tenant.RefuseSignature()
	case !c.Credential.Scopes.Any(scope):
		return filter.ScopeMissing(scope, "the credential may not call this method of engines")
	}
	return nil
}
