package dialect

import (
	"github.com/capgate/capgate/internal/lib/strictproto"
)

// Why a message is refused. They never quote it: it holds arguments and secrets.
var (
	ErrMalformed = strictproto.ErrMalformed
	ErrAmbiguous = strictproto.ErrAmbiguous
)

// Field numbers of InvokeRequest, the same in the doc and live dialects.
const (
	fieldToolName     = 1
	fieldArgs         = 2
	fieldConfig       = 3
	fieldSessionID    = 4
	fieldCapabilityID = 5
	fieldThreadID     = 6
)

var invokeRequest = strictproto.Shape{
	fieldToolName: strictproto.String, fieldArgs: strictproto.Bytes, fieldConfig: strictproto.Bytes,
	fieldSessionID: strictproto.String, fieldCapabilityID: strictproto.String, fieldThreadID: strictproto.String,
}

// Key is what a call is routed by. The slices are parts of the message that they were
// read from, and nil where it does not have the field.
type Key struct {
	Tool       []byte
	Session    []byte
	Capability []byte
	Thread     []byte
	User       []byte // on whose behalf the caller says that it calls; the legacy dialect only
	Args       []byte // not looked at
	Config     []byte // not looked at; it holds secrets
}

// ReadKey reads the routing fields of an InvokeRequest of the doc or live dialect by
// walking its tags. It neither allocates nor unmarshals, and looks at no byte of the
// arguments or the configuration.
//
// What a decoder might read differently is refused, up to the last byte: a router must
// not act on a message that means something else to the backend. See strictproto.
func ReadKey(msg []byte) (Key, error) {
	var k Key
	r := strictproto.Read(msg, &invokeRequest)
	for r.Next() {
		switch r.Number {
		case fieldToolName:
			k.Tool = r.Value
		case fieldArgs:
			k.Args = r.Value
		case fieldConfig:
			k.Config = r.Value
		case fieldSessionID:
			k.Session = r.Value
		case fieldCapabilityID:
			k.Capability = r.Value
		case fieldThreadID:
			k.Thread = r.Value
		}
	}
	if err := r.Err(); err != nil {
		return Key{}, err
	}
	return k, nil
}

const fieldArtifactID = 1

var downloadRequest = strictproto.Shape{fieldArtifactID: strictproto.String}

// ReadArtifactID reads the id of the artifact that a DownloadOutputArtifactRequest asks
// for, in either dialect, as ReadKey reads.
func ReadArtifactID(msg []byte) (id []byte, err error) {
	r := strictproto.Read(msg, &downloadRequest)
	for r.Next() {
		if r.Number == fieldArtifactID {
			id = r.Value
		}
	}
	if err := r.Err(); err != nil {
		return nil, err
	}
	return id, nil
}
