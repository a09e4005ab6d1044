package tenant

import "time"

// Record is a tenant in the store.
type Record struct {
	ID, Name         string
	UID              string // unique also among tenants that had the same id
	Disabled         bool
	Capabilities     Grants
	Limits           *Limits // nil: the limits of tenants without limits of their own
	Created, Updated time.Time
	UpdatedBy        string // the operator that made the last change; "": unknown
	Version          int64  // increases by one with each change
}

// Settings returns the tenant's settings. The argument standard has the limits of a tenant without limits of
// its own.
func (r *Record) Settings(standard *Limits) *Settings {
	s := &Settings{ID: r.ID, Name: r.Name, Disabled: r.Disabled, Capabilities: r.Capabilities, Limits: *standard,
		uid: r.UID}
	if r.Limits != nil {
		s.Limits = *r.Limits
	}
	return s
}

// KeyHistory is the part of a key in the store that does not affect its validity.
type KeyHistory struct {
	UID        string   // uid of its tenant; "" if that was in the file
	CreatedBy  string   // the operator or key that created it
	Makers     []string // names of the credentials that created it, and of those that created them; at most MaxMakers
	First      string   // id of the first of the keys that replaced each other up to this one; "": itself
	Created    time.Time
	Replaces   string    // id of the key that it replaces
	ReplacedBy string    // id of the key that replaces it
	Replaced   time.Time // when it was replaced; zero: never
	Until      time.Time // end of its validity after it was replaced; zero: it was not replaced
	Revoked    time.Time // zero: it is not revoked
}
