package tenant

// Settings are the settings of a tenant in the configuration or in Redis. They are shared and immutable.
type Settings struct {
	ID           string
	Name         string // for display
	Disabled     bool   // calls for the tenant are rejected
	Capabilities Grants // visible capabilities; others look as if they did not exist
	Limits       Limits // limits of its callers

	uid string // of a tenant in the store; unique also among tenants that had the same id
}

// Sees reports whether a capability is visible for the tenant. Nil settings see all.
func (s *Settings) Sees(capability string) bool {
	return s == nil || s.Capabilities.Include(capability)
}

// UID returns an id that is unique also among tenants that had the same ID; "" for a tenant of the file.
func (s *Settings) UID() string { return s.uid }
