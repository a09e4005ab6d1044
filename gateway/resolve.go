package gateway

import (
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/router"
)

// resolve finds the fleet that the call means, if it is there for the caller.
func (h *handler) resolve(t *transit) (refusal *call.Refusal) {
	var capability string
	if t.first != nil {
		capability = t.first.capability
	}
	if t.fleet, refusal = h.router.Table().Resolve(t.keyOf(capability), t.settings); refusal != nil {
		return refusal
	}
	t.call.Capability = t.fleet.Capability
	t.metrics = metricsOf(t.fleet)
	return nil
}

// keyOf is everything in a call that names its capability. message is what the first
// message says, "" before it was read.
func (t *transit) keyOf(message string) router.Key {
	metadata, _ := t.stream.Header(capabilityHeader)
	return router.Key{Metadata: metadata, Message: message, Authority: t.stream.Authority(), Service: t.call.Service}
}
