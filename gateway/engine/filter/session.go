package filter

import (
	"crypto/rand"

	"github.com/capgate/capgate/gateway/filter"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/strictproto"
)

// NamesSession reports whether the first message of a call may name a session.
func NamesSession(c *filter.Call) bool { return method(c).Session != 0 }

// ReadSession returns the session in the first message of a call.
func ReadSession(c *filter.Call, msg []byte) (filter.Peeked, *call.Refusal) {
	id, err := method(c).ReadSession(msg)
	if err != nil {
		return filter.Peeked{}, strictproto.Refuse(err, refusedMessage)
	}
	c.Info.Session = c.Keep(filter.View(id))
	return filter.Peeked{Read: true}, nil
}

// NewSession sets a new session for a message without one. Otherwise an engine would use one session for all such
// messages, of any client.
func NewSession(c *filter.Call) {
	if method(c).Opens && c.Info.Session == "" {
		c.Info.Session, c.Info.Opened = c.Keep(rand.Text()), true
	}
}

// Routed rejects a call that does not identify an engine of a fleet with several.
func Routed(c *filter.Call) *call.Refusal {
	if method(c).Anyone || c.Info.Session != "" || len(c.Fleet.Backends) < 2 {
		return nil
	}
	return refusedManyEngines
}

var (
	refusedMessage = &call.Refusal{Kind: call.InvalidArgument, Reason: "REQUEST_MALFORMED",
		Message: "the request is not a well-formed message of its method"}
	refusedManyEngines = &call.Refusal{Kind: call.FailedPrecondition, Reason: "ENGINE_AMBIGUOUS",
		Message: "the fleet has several engines, and the call names no session that identifies one: name a session, " +
			"for example in the metadata x-session-id, or use a fleet with one engine"}
)
