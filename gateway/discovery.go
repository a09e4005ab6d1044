package gateway

import (
	"context"

	"github.com/capgate/capgate/internal/tenant"
)

// Discovery answers calls of the tools that list the others of a capability.
type Discovery struct {
	// Lists reports whether a tool is such a one, from memory. It is Catalog.Lists.
	Lists func(capability, tool string) bool
	// Tools returns what a caller may use, as the tool lists it. It is listing.Server's Discovered.
	Tools func(ctx context.Context, caller tenant.Identity, capability string) ([]byte, error)
}
