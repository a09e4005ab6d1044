package gateway

import (
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/router"
)

// The refusals that need nothing from the call, shared by all.
var (
	refusedMethod = &call.Refusal{Kind: call.Unimplemented, Reason: "METHOD_UNKNOWN",
		Message: "the gateway has no method of this name"}
)

// healthReply answers Healthcheck for a capability from what health knows. Its bytes
// are the same in the doc and the live dialect, ready=1, message=2; legacy has the first
// alone.
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
