package checks

import (
	"github.com/capgate/capgate/gateway/filter"
	"github.com/capgate/capgate/internal/call"
)

// maxSession is the maximum length of a session id for a fleet with affinity, in bytes.
const maxSession = 512

// Session determines the session of the call.
func Session(c *filter.Call) *call.Refusal {
	if at := c.Client.At; at != nil && at.Session != "" {
		return listenerSession(c, at.Session)
	}
	if !c.Fleet.HasSessions() {
		return nil
	}
	id, _ := c.Stream.Header(filter.SessionHeader)
	if c.Credential.Only != nil {
		id = c.Credential.Only.Session
	}
	if id != "" && c.Info.Session != "" && id != c.Info.Session || c.Stream.Contradicts(filter.SessionHeader) {
		return refusedTwoSessions
	}
	if c.Info.Session == "" {
		c.Info.Session = c.Keep(id)
	}
	if len(c.Info.Session) > maxSession {
		return refusedSession
	}
	return nil
}

// ForgetSession keeps a call of the gateway itself from being pinned.
func ForgetSession(c *filter.Call) { c.Info.Session = "" }

var (
	refusedTwoSessions = &call.Refusal{Kind: call.InvalidArgument, Reason: "SESSION_CONFLICT",
		Message: "the call names two sessions: session_id of the message differs from the metadata x-session-id, " +
			"or the metadata occurs twice"}
	refusedSession = &call.Refusal{Kind: call.InvalidArgument, Reason: "SESSION_INVALID",
		Message: "the session's id is longer than 512 bytes"}
)
