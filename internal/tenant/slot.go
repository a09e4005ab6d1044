package tenant

import "sync/atomic"

// Slot holds what one part of the gateway has found for Settings, so that its next call needs no map. The finder checks
// that what it has found is still valid. The zero value is empty. It is safe for concurrent use.
type Slot struct{ found atomic.Pointer[any] }

// Load returns the last argument of Store; nil means there was none.
func (s *Slot) Load() any {
	if found := s.found.Load(); found != nil {
		return *found
	}
	return nil
}

// Store replaces what was found.
func (s *Slot) Store(found any) { s.found.Store(&found) }

// Slots are the slots of Settings. They are not a part of their value.
type Slots struct {
	Limits    Slot // of internal/ratelimit
	Bandwidth Slot // of gateway/filter/bandwidth
	Capacity  Slot // of gateway/filter/overload
	Metrics   Slot // of gateway/filter/authenticate
}
