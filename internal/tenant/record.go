package tenant

import "time"

// Record is a tenant as the store has it.
type Record struct {
	Settings
	UID              string // no other tenant has it, not even one of the same id
	Created, Updated time.Time
	Version          int64 // one more with each change
}

// NewRecord makes one whose settings know whose they are.
func NewRecord(uid string, s Settings) *Record {
	s.uid = uid
	return &Record{Settings: s, UID: uid}
}

// Origin is what is known of a key in the store beside what makes it valid.
type Origin struct {
	UID     string // of its tenant; "" where that was in the file
	By      string // who made it
	Created time.Time
	From    string    // id of the key that it was made to replace
	To      string    // id of the one that replaces it
	Ends    time.Time // when it does not hold any longer because another replaces it; zero: none does
	Revoked time.Time // zero: it is not
}
