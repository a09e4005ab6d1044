package tenant

// Settings are what is set of a tenant, in the configuration or in Redis. They are shared,
// and never changed: other settings are another value.
type Settings struct {
	ID     string
	Limits Limits // how much its callers may do
}
