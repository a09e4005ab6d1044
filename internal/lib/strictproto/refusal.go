package strictproto

import (
	"errors"

	"github.com/capgate/capgate/internal/call"
)

// Refuse is the refusal of a message that was not read because of err; malformed is for one that no decoder takes.
// What is wrong with an ambiguous one is told, and nothing of it is quoted.
func Refuse(err error, malformed *call.Refusal) *call.Refusal {
	if !errors.Is(err, ErrAmbiguous) {
		return malformed
	}
	return &call.Refusal{Kind: call.InvalidArgument, Reason: "AMBIGUOUS_MESSAGE",
		Message: "the request message: " + err.Error()}
}
