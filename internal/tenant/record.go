package tenant

import "time"

// Record is a tenant as the store has it.
type Record struct {
	ID, Name         string
	UID              string // no other tenant has it, not even one of the same id
	Disabled         bool
	Capabilities     Grants
	Limits           *Limits // nil: those of all that have none of their own
	Created, Updated time.Time
	Version          int64 // one more with each change
}

// Settings are the tenant's. standard are the limits of one that has none of its own.
func (r *Record) Settings(standard *Limits) *Settings {
	s := &Settings{ID: r.ID, Name: r.Name, Disabled: r.Disabled, Capabilities: r.Capabilities, Limits: *standard,
		uid: r.UID}
	if r.Limits != nil {
		s.Limits = *r.Limits
	}
	return s
}

// KeyHistory is what is known of a key in the store beside what makes it valid.
type KeyHistory struct {
	UID        string // of its tenant; "" where that was in the file
	CreatedBy  string // who made it
	Created    time.Time
	Replaces   string    // id of the key that it was made to replace
	ReplacedBy string    // id of the one that replaces it
	Replaced   time.Time // when that was made; zero: none was
	Until      time.Time // when it does not hold any longer because another replaces it; zero: none does
	Revoked    time.Time // zero: it is not
}
