package checks

import (
	"github.com/capgate/capgate/gateway/dialect"
	"github.com/capgate/capgate/gateway/filter"
	"github.com/capgate/capgate/internal/call"
)

// Method rejects methods outside the dialects that the fleet does not list. Otherwise a method that policy does not
// know would reach a capability by its name alone.
func Method(c *filter.Call) *call.Refusal {
	if m, lacks := dialect.Lacking(c.Info.Path); lacks {
		return lacking(m)
	}
	if c.Fleet.HasMethod(c.Info.Path) || !dialect.Owns(c.Info.Path) && c.Fleet.HasService(c.Service) {
		return nil
	}
	return refusedUnlisted
}

// lacking returns the refusal of a call of an RPC that the client's dialect lacks.
func lacking(m call.Method) *call.Refusal {
	return &call.Refusal{Kind: call.Unimplemented, Reason: "DIALECT_UNSUPPORTED",
		Message: "the legacy dialect of this call has no " + m.String() + ": use another dialect"}
}

var refusedUnlisted = &call.Refusal{Kind: call.Unimplemented, Reason: "METHOD_UNKNOWN",
	Message: "the capability has no method with this name; services or methods in the configuration of its fleet " +
		"can " +
		"list more"}
