package tenant

// Settings are what is set of a tenant, in the configuration or in Redis. They are shared,
// and never changed: other settings are another value.
type Settings struct {
	ID           string
	Name         string // for people
	Disabled     bool   // nobody calls for it
	Capabilities Grants // those that there are for it: no other is told from one that does not exist
	Limits       Limits // how much its callers may do

	uid string // of a tenant in the store: no other that has its id before or after it has that too
}

// Sees says whether there is a capability for the tenant. Without settings there are all.
func (s *Settings) Sees(capability string) bool {
	return s == nil || s.Capabilities.Include(capability)
}

// UID is another one for each tenant of the store that has an ID, before and after; "" for one of the file.
func (s *Settings) UID() string { return s.uid }
