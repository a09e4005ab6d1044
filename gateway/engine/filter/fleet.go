package filter

import (
	"github.com/capgate/capgate/gateway/engine"
	"github.com/capgate/capgate/gateway/filter"
	"github.com/capgate/capgate/internal/call"
)

// Foreign rejects calls of other services whose fleet consists of engines, because engines lack the method.
func Foreign(c *filter.Call) *call.Refusal {
	if engine.SettingsOf(c.Fleet) != nil {
		return refusedMethod
	}
	return nil
}

// Fleet rejects calls whose fleet does not consist of engines, or does not allow their method.
func Fleet(c *filter.Call) *call.Refusal {
	switch settings := engine.SettingsOf(c.Fleet); {
	case settings == nil:
		return refusedFleet
	case method(c).Ends && !settings.Shutdown:
		return refusedShutdown
	}
	return nil
}

// Directed is Fleet for calls of the gateway itself, which may name their engine.
func Directed(c *filter.Call) *call.Refusal {
	if engine.SettingsOf(c.Fleet) == nil {
		return refusedFleet
	}
	if c.Route.Address == "" {
		return nil
	}
	for _, b := range c.Fleet.Backends {
		if b.Addr == c.Route.Address {
			c.Route.Directed = b
			return nil
		}
	}
	return filter.Unreachable(c.Fleet)
}

var (
	refusedFleet = &call.Refusal{Kind: call.NotFound, Reason: "ENGINE_UNKNOWN",
		Message: "the fleet does not consist of OpenParallax engines; set protocol: openparallax in its configuration"}
	refusedMethod = &call.Refusal{Kind: call.Unimplemented, Reason: "METHOD_UNKNOWN",
		Message: "OpenParallax engines have no method of this name"}
	refusedShutdown = &call.Refusal{Kind: call.PermissionDenied, Reason: "ENGINE_SHUTDOWN_OFF",
		Message: "this engine cannot be shut down through the gateway; the fleet's configuration can permit it"}
)
