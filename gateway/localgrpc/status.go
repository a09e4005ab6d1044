package localgrpc

import (
	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/capgate/capgate/gateway/relay"
)

// statusProto returns a status of the relay with its details, as far as they can be read and have the same code.
func statusProto(st relay.Status) *spb.Status {
	out := &spb.Status{}
	if len(st.Details) > 0 && proto.Unmarshal(st.Details, out) == nil && out.GetCode() == codeOf(st.Code) {
		return out
	}
	return &spb.Status{Code: codeOf(st.Code), Message: st.Message}
}

// StatusOf returns an error of a handler as the relay sends it.
func StatusOf(err error) relay.Status {
	st, ok := status.FromError(err)
	if !ok {
		st = status.FromContextError(err)
	}
	out := relay.Status{Code: uint32(st.Code()), Message: st.Message()}
	if p := st.Proto(); len(p.GetDetails()) > 0 {
		if details, err := proto.Marshal(p); err == nil {
			out.Details = details
		}
	}
	return out
}
