package strictproto

import (
	"errors"

	"github.com/capgate/capgate/internal/call"
)

// Refuse returns the refusal of a message that could not be read because of err. If no decoder accepts the
// message, that is malformed. The refusal explains an ambiguous message, and quotes nothing of it.
func Refuse(err error, malformed *call.Refusal) *call.Refusal {
	if !errors.Is(err, ErrAmbiguous) {
		return malformed
	}
	return &call.Refusal{Kind: call.InvalidArgument, Reason: "AMBIGUOUS_MESSAGE",
		Message: "the request message: " + err.Error()}
}
