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

// What the legacy dialect's context calls that for which the others have fields, or
// metadata. ContextConfig is the gateway's own word: the dialect has none.
const (
	contextSession    = "session_id"
	contextThread     = "thread_id"
	contextUser       = "user_id"
	contextCapability = "capability_id"
	contextConfig     = "config_json"
)

// ReadLegacyKey reads the routing fields of an InvokeRequest of the legacy dialect, some of
// which are entries of its context, as ReadKey reads those of the others. An entry that an
// encoder would not write so, and a name that is there twice, are refused: some decoders
// drop the one, or would keep the other value.
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

// entry takes one of a context's.
func (k *Key) entry(name, value []byte) {
	switch string(name) { // which copies nothing
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
