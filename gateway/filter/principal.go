package filter

import (
	"github.com/capgate/capgate/internal/telemetry"
	"github.com/capgate/capgate/internal/tenant"
)

// Principal is what is known of the caller besides the names in Call.Info.
type Principal struct {
	Settings *tenant.Settings         // of its tenant; nil means there are no tenants
	Metrics  *telemetry.TenantMetrics // of its tenant; nil for the gateway itself, and where the tenant is not known
	Scopes   tenant.Scopes
	Asserts  tenant.Asserts // what it may say of itself, also in a message
	// ArtifactsUnread says that Call.Artifacts, which Bound is about, are not known yet: the message takes long to
	// read.
	ArtifactsUnread bool

	Person   *tenant.Person   // of a token or a session; nil means none
	Subject  string           // user of a token whose holder named another user; empty means none
	Validity tenant.Validity  // of a token or a certificate; nil means none
	Only     *tenant.Download // the one thing that the call may be; nil means anything
}

// Owner is whose a call's memory is: its tenant's, or the only one's.
func (p *Principal) Owner() string {
	if p.Settings == nil {
		return tenant.Default
	}
	return p.Settings.ID
}

// UID is that of its tenant; empty means there are no tenants, or it is one of the file.
func (p *Principal) UID() string {
	if p.Settings == nil {
		return ""
	}
	return p.Settings.UID()
}

// Bound says that a call may name no artifacts but those that its tenant uploaded or was told of, in whatever dialect:
// backends of another dialect may get it translated.
func (p *Principal) Bound() bool { return p.Settings != nil }
