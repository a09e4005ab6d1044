package dialect

import (
	"errors"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
)

// Why a message is refused. They never quote it: it holds arguments and secrets.
var (
	ErrMalformed = errors.New("the request is not a well-formed protobuf message")
	ErrUTF8      = errors.New("what the request has to say in UTF-8 is not")
)

// Field numbers of InvokeRequest, the same in the doc and live dialects.
const (
	fieldToolName     = 1
	fieldArgs         = 2
	fieldConfig       = 3
	fieldSessionID    = 4
	fieldCapabilityID = 5
)

// Key is what a call is routed by. The slices are parts of the message that they were
// read from, and nil where it does not have the field.
type Key struct {
	Tool       []byte
	Session    []byte
	Capability []byte
	User       []byte // on whose behalf the caller says that it calls; the legacy dialect only
	Args       []byte // not looked at
	Config     []byte // not looked at; it holds secrets
}

// ReadKey reads the routing fields of an InvokeRequest of the doc or live dialect by
// walking its tags. It neither allocates nor unmarshals, and looks at no byte of the
// arguments or the configuration.
//
// As protobuf has it, the last value of a field wins, and a field of another wire type
// than its own is an unknown one and skipped. What a decoder would refuse for its
// structure is refused here too, up to the last byte: a router must not act on a
// message that means something else to the backend.
func ReadKey(msg []byte) (Key, error) {
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
		if field := k.field(num); field != nil {
			if num != fieldArgs && num != fieldConfig && !utf8.Valid(v) {
				return Key{}, ErrUTF8
			}
			*field = v
		}
	}
	return k, nil
}

// nextField reads the field that msg begins with: its number, its value where that is
// length-delimited, else nil, and how many bytes it has, less than 0 if it is malformed.
func nextField(msg []byte) (num protowire.Number, v []byte, n int) {
	num, typ, n := protowire.ConsumeTag(msg)
	if n < 0 || num > protowire.MaxValidNumber {
		return 0, nil, -1
	}
	if typ != protowire.BytesType {
		m := protowire.ConsumeFieldValue(num, typ, msg[n:])
		if m < 0 {
			return 0, nil, -1
		}
		return num, nil, n + m
	}
	v, m := protowire.ConsumeBytes(msg[n:])
	if m < 0 {
		return 0, nil, -1
	}
	return num, v, n + m
}

func (k *Key) field(num protowire.Number) *[]byte {
	switch num {
	case fieldToolName:
		return &k.Tool
	case fieldArgs:
		return &k.Args
	case fieldConfig:
		return &k.Config
	case fieldSessionID:
		return &k.Session
	case fieldCapabilityID:
		return &k.Capability
	}
	return nil
}

// ReadArtifactID reads the id of the artifact that a DownloadOutputArtifactRequest asks
// for, in either dialect, as ReadKey reads.
func ReadArtifactID(msg []byte) ([]byte, error) {
	k, err := ReadKey(msg)
	return k.Tool, err // both are field 1
}
