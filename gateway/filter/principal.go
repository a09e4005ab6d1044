package filter

import (
	"github.com/capgate/capgate/internal/telemetry"
	"github.com/capgate/capgate/internal/tenant"
)

// Principal describes the tenant of the caller, besides the names in Call.Info.
type Principal struct {
	Settings *tenant.Settings         // nil means there are no tenants
	Metrics  *telemetry.TenantMetrics // nil for the gateway itself, and if the tenant is unknown
}

// Credential describes the caller's credential, and what it permits.
type Credential struct {
	Scopes   tenant.Scopes
	Asserts  tenant.Asserts // names that the caller may assert, also in a message
	Operator bool           // an operator in the playground; Info.Key has its name

	Person   *tenant.Person   // from a token or a session; nil means none
	Subject  string           // of a token whose holder named another user; empty means none
	Validity tenant.Validity  // of a token or a certificate; nil means unlimited
	Only     *tenant.Download // the only call that is allowed; nil means any
}

// Owner returns the owner of a call's memory: its tenant, or the only one.
func (p *Principal) Owner() string {
	if p.Settings == nil {
		return tenant.Default
	}
	return p.Settings.ID
}

// UID returns the UID of the tenant; empty if there are no tenants, or for a tenant of the file.
func (p *Principal) UID() string { return p.Settings.UID() }

// Bound reports whether a call may only name artifacts that its tenant uploaded or received, in any dialect: it may be
// translated for a backend of another dialect.
func (p *Principal) Bound() bool { return p.Settings != nil }
