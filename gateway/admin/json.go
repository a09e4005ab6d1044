package admin

import (
	"errors"
	"io"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/capgate/capgate/internal/lib/restjson"
)

// marshaler is the JSON codec of the services.
type marshaler struct{ runtime.JSONPb }

func newMarshaler() *marshaler {
	return &marshaler{runtime.JSONPb{MarshalOptions: protojson.MarshalOptions{UseProtoNames: true}}}
}

// Marshal implements runtime.Marshaler.
func (m *marshaler) Marshal(v any) ([]byte, error) {
	if msg, ok := v.(proto.Message); ok {
		return restjson.Marshal(msg)
	}
	return m.JSONPb.Marshal(v)
}

// NewDecoder implements runtime.Marshaler. A body must be a single JSON value.
func (m *marshaler) NewDecoder(r io.Reader) runtime.Decoder {
	d := m.JSONPb.NewDecoder(r)
	return runtime.DecoderFunc(func(v any) error {
		if err := d.Decode(v); err != nil {
			return err
		}
		if text, is := d.(runtime.DecoderWrapper); is {
			if _, err := text.Token(); !errors.Is(err, io.EOF) {
				return errTwoValues
			}
		}
		return nil
	})
}

var errTwoValues = errors.New("invalid JSON: it has more than one value")

// NewEncoder implements runtime.Marshaler.
func (m *marshaler) NewEncoder(w io.Writer) runtime.Encoder {
	return runtime.EncoderFunc(func(v any) error {
		text, err := m.Marshal(v)
		if err != nil {
			return err
		}
		_, err = w.Write(append(text, '\n'))
		return err
	})
}
