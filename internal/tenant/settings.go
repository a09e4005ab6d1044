package tenant

// Settings are the settings of a tenant in the configuration or in Redis. They are shared and immutable.
type Settings struct {
	ID           string
	Name         string // for display
	Disabled     bool   // calls for the tenant are rejected
	Capabilities Grants // visible capabilities; others look as if they did not exist
	Limits       Limits // limits of its callers
	Slots        Slots

	uid string // of a tenant in the store; unique also among tenants that had the same id
}

// Declared is a tenant of the configuration.
type Declared struct {
	// The tenant's name in policies and logs: letters, digits, hyphens, dots and underscores, at most 63.
	ID string `yaml:"id" kind:"tenant" required:"" unique:"true"`
	// Patterns of the capabilities that this tenant may see and call, at most 256; ["*"]: all.
	Capabilities Grants `yaml:"capabilities" required:""`
	// Its API keys.
	Keys []Key `yaml:"keys"`
	// Limits of its callers, on all replicas together; {}: none. Default the file's limits.
	Limits *Limits `yaml:"limits"`
}

// Settings returns the tenant with its own limits, or with common ones.
func (d *Declared) Settings(common Limits) *Settings {
	if d.Limits != nil {
		common = *d.Limits
	}
	return &Settings{ID: d.ID, Capabilities: d.Capabilities, Limits: common}
}

// Sees reports whether a capability is visible for the tenant. Nil settings see all.
func (s *Settings) Sees(capability string) bool {
	return s == nil || s.Capabilities.Include(capability)
}

// UID returns an id that is unique also among tenants that had the same ID; "" for a tenant of the file, and for nil.
func (s *Settings) UID() string {
	if s == nil {
		return ""
	}
	return s.uid
}
