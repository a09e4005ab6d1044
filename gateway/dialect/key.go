package dialect

import (
	"github.com/capgate/capgate/internal/lib/strictproto"
)

// Errors of rejected messages. They never quote the message, which contains arguments and secrets.
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

// Key holds the routing fields of a call. The slices are parts of the message, and nil if a field is absent.
type Key struct {
	Tool       []byte
	Session    []byte
	Capability []byte
	Thread     []byte
	User       []byte // the user named by the caller; only in the legacy dialect
	Args       []byte // not parsed
	Config     []byte // not parsed; contains secrets
}

// ReadKey reads the routing fields of an InvokeRequest in the doc or live dialect by walking its tags. It neither
// allocates nor unmarshals, and does not read the bytes of the arguments or the configuration.
//
// A message that decoders might read differently, up to its last byte, is rejected: otherwise it could have another
// meaning for the backend. See strictproto.
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

// ReadArtifactID reads the id of the artifact in a DownloadOutputArtifactRequest of either dialect, as ReadKey does.
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
