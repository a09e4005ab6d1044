package tenant

import "github.com/capgate/capgate/internal/call"

// Default is the tenant of a gateway that has no other.
const Default = "default"

// Single is the identity of every caller of a single-tenant gateway.
type Single struct{}

// Identify returns the default tenant, and never a refusal.
func (Single) Identify() (string, *call.Refusal) { return Default, nil }
