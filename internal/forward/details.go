package forward

import "google.golang.org/protobuf/encoding/protowire"

// domain is google.rpc.ErrorInfo.domain of the gateway's refusals, and of these.
const domain = "capgate.dev"

// details returns a google.rpc.Status with an ErrorInfo, for a call that did not start. The generated types would
// double the memory of this small program.
func details(code uint32, reason, message string) []byte {
	entry := text(text(nil, 1, "not_started"), 2, "true")
	info := text(text(text(nil, 1, reason), 2, domain), 3, string(entry))
	packed := text(text(nil, 1, "type.googleapis.com/google.rpc.ErrorInfo"), 2, string(info))
	status := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), uint64(code))
	return text(text(status, 2, message), 3, string(packed))
}

func text(b []byte, field protowire.Number, value string) []byte {
	return protowire.AppendString(protowire.AppendTag(b, field, protowire.BytesType), value)
}
