package gateway

import (
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/capgate/capgate/gateway/filter"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/router"
)

// answerHealth answers a Healthcheck, which is never sent to a capability. For a fleet without a ready backend it
// requests early probes, and does not wait for them.
func (h *handler) answerHealth(t *callState) filter.Step {
	if t.Fleet.Health().Up() == 0 {
		h.ready.Expedite(t.Fleet)
	}
	return t.Reply(healthReply(t.Fleet, t.Info.Dialect))
}

// serve serves a call of the gateway's own services.
func (h *handler) serve(t *callState) filter.Step {
	step := t.ServeBy(h.services, nil)
	t.Answer().Served.SetProgress(call.Answered)
	return step
}

// healthReply returns the response to a Healthcheck. It is the same in the dialects Doc and Live, ready=1 and
// message=2; Legacy has only the first field.
func healthReply(f *router.Fleet, d call.Dialect) []byte {
	ready, summary := f.Health().Ready()
	var msg []byte
	if ready {
		msg = protowire.AppendVarint(protowire.AppendTag(msg, 1, protowire.VarintType), 1)
	}
	if d == call.Legacy {
		return msg
	}
	return protowire.AppendString(protowire.AppendTag(msg, 2, protowire.BytesType), summary)
}
