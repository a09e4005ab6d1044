package dialect

import "unicode/utf8"

// Field numbers of the legacy dialect's InvokeRequest, and of an entry of its context.
const (
	fieldParameters = 2
	fieldContext    = 3

	fieldEntryKey   = 1
	fieldEntryValue = 2
)

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
// which are entries of its context, as ReadKey reads those of the others. All that it has is
// text there, and is refused where it is not, as a decoder would.
func ReadLegacyKey(msg []byte) (Key, error) {
	var k Key
	for len(msg) > 0 {
		num, v, n := nextField(msg)
		if n < 0 {
			return Key{}, ErrMalformed
		}
		msg = msg[n:]
		if v == nil {
			continue
		}
		switch num {
		case fieldToolName, fieldParameters:
			if !utf8.Valid(v) {
				return Key{}, ErrUTF8
			}
			*k.field(num) = v
		case fieldContext:
			if err := k.entry(v); err != nil {
				return Key{}, err
			}
		}
	}
	return k, nil
}

// entry reads one of a context's. A key that is there again replaces the one before, as does
// the key or the value of an entry; one that is not there is empty.
func (k *Key) entry(msg []byte) error {
	name, value := []byte{}, []byte{}
	for len(msg) > 0 {
		num, v, n := nextField(msg)
		if n < 0 {
			return ErrMalformed
		}
		msg = msg[n:]
		if v == nil || num != fieldEntryKey && num != fieldEntryValue {
			continue
		}
		if !utf8.Valid(v) {
			return ErrUTF8
		}
		if num == fieldEntryKey {
			name = v
		} else {
			value = v
		}
	}
	switch string(name) { // which copies nothing
	case contextSession:
		k.Session = value
	case contextUser:
		k.User = value
	case contextCapability:
		k.Capability = value
	case contextConfig:
		k.Config = value
	}
	return nil
}
