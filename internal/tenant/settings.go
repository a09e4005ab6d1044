package tenant

// Settings are what is set of a tenant, in the configuration or in Redis. They are shared,
// and never changed: other settings are another value.
type Settings struct {
	ID           string
	Capabilities Grants // those that there are for it: no other is told from one that does not exist
	Limits       Limits // how much its callers may do
}

// Sees says whether there is a capability for the tenant. Without settings there are all.
func (s *Settings) Sees(capability string) bool {
	return s == nil || s.Capabilities.Include(capability)
}
