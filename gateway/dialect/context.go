package dialect

import "google.golang.org/protobuf/encoding/protowire"

// ContextEntry is an entry of a legacy context. Its value may be secret.
type ContextEntry struct{ Name, Value []byte }

// LegacyContext returns the entries of a legacy InvokeRequest's context that are not in Key: all except session,
// thread, user, capability and configuration. ReadLegacyKey must have accepted the message. The entries are slices of
// the message.
func LegacyContext(msg []byte) (entries []ContextEntry) {
	eachField(msg, func(num protowire.Number, v []byte) {
		if num != fieldContext {
			return
		}
		var e ContextEntry
		eachField(v, func(num protowire.Number, v []byte) {
			switch num {
			case 1:
				e.Name = v
			case 2:
				e.Value = v
			}
		})
		switch string(e.Name) {
		case contextSession, contextThread, contextUser, contextCapability, contextConfig:
		default:
			entries = append(entries, e)
		}
	})
	return entries
}

// eachField visits the length-delimited fields of a message that is known to be well-formed.
func eachField(msg []byte, visit func(protowire.Number, []byte)) {
	for len(msg) > 0 {
		num, typ, n := protowire.ConsumeTag(msg)
		if n < 0 {
			return
		}
		msg = msg[n:]
		if n = protowire.ConsumeFieldValue(num, typ, msg); n < 0 {
			return
		}
		if typ == protowire.BytesType {
			v, _ := protowire.ConsumeBytes(msg)
			visit(num, v)
		}
		msg = msg[n:]
	}
}
