package gateway

import (
	"github.com/capgate/capgate/gateway/filter"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/router"
)

// resolve finds the fleet that the call means, if it is there for the caller.
func (h *handler) resolve(t *filter.Call) (refusal *call.Refusal) {
	var capability string
	if t.Peeked != nil {
		capability = t.Peeked.Capability
	}
	if t.Fleet, refusal = h.router.Table().Resolve(keyOf(t, capability), t.Principal.Settings); refusal != nil {
		return refusal
	}
	t.Info.Capability = t.Fleet.Capability
	return nil
}

// keyOf is everything in a call that names its capability. message is what the first
// message says, "" before it was read.
func keyOf(t *filter.Call, message string) router.Key {
	metadata, _ := t.Stream.Header(capabilityHeader)
	return router.Key{Metadata: metadata, Message: message, Authority: t.Stream.Authority(), Service: t.Info.Service}
}
