package dialect

import "github.com/capgate/capgate/internal/lib/strictproto"

// Field numbers of the legacy dialect's InvokeRequest, and of an entry of its context.
const (
	fieldParameters = 2
	fieldContext    = 3
)

var legacyInvokeRequest = strictproto.Shape{
	fieldToolName: strictproto.String, fieldParameters: strictproto.String, fieldContext: strictproto.Messages,
}

// Names of entries in the legacy dialect's context for fields or metadata of the other dialects. contextConfig is
// the gateway's own name: the dialect has none.
const (
	contextSession    = "session_id"
	contextThread     = "thread_id"
	contextUser       = "user_id"
	contextCapability = "capability_id"
	contextConfig     = "config_json"
)

// ReadLegacyKey reads the routing fields of an InvokeRequest in the legacy dialect, some of them from its context, as
// ReadKey does for the other dialects. Entries that no encoder writes, and repeated names, are rejected: decoders drop
// such entries, or use another value.
func ReadLegacyKey(msg []byte) (Key, error) {
	var k Key
	var entries strictproto.Entries
	r := strictproto.Read(msg, &legacyInvokeRequest)
	for r.Next() {
		switch r.Number {
		case fieldToolName:
			k.Tool = r.Value
		case fieldParameters:
			k.Args = r.Value
		case fieldContext:
			name, value, err := entries.Read(r.Value)
			if err != nil {
				return Key{}, err
			}
			k.entry(name, value)
		}
	}
	if err := r.Err(); err != nil {
		return Key{}, err
	}
	return k, nil
}

// entry sets the field for an entry of the context.
func (k *Key) entry(name, value []byte) {
	switch string(name) { // does not copy
	case contextSession:
		k.Session = value
	case contextThread:
		k.Thread = value
	case contextUser:
		k.User = value
	case contextCapability:
		k.Capability = value
	case contextConfig:
		k.Config = value
	}
}
