package bodybudget

import (
	"github.com/capgate/capgate/internal/lib/strictjson"
)

// Bounds of a JSON text that becomes a message. Each value takes many times its own size in memory while it is decoded.
const (
	MaxValues  = 1 << 17
	freeValues = 64  // values of a text that are not charged
	valueCost  = 192 // bytes of a value while it is decoded: measured, with the largest message of a list
)

// DecodeJSON checks a part of the body, which is one JSON value, and reserves memory for the message that it becomes.
// The caller may call done when the message is no longer used; otherwise the memory is reserved until the response
// ends. The error is a *strictjson.Error, or that of the Owner.
func (h *Reservation) DecodeJSON(text []byte) (done func(), err error) {
	r := strictjson.Get()
	defer r.Release()
	if err := r.Read(text, strictjson.Options{Values: MaxValues}); err != nil {
		return nil, err
	}
	return h.DecodeValues(r.Values())
}

// DecodeValues reserves memory for a message of n JSON values. See DecodeJSON.
func (h *Reservation) DecodeValues(n int) (done func(), err error) {
	if n <= freeValues {
		n = 0
	}
	return h.Decode(n * valueCost)
}
