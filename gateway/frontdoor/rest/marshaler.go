package rest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/capgate/capgate/gateway/frontdoor/bodybudget"
	"github.com/capgate/capgate/gateway/frontdoor/invocation"
	"github.com/capgate/capgate/gateway/frontdoor/problem"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/restjson"
	"github.com/capgate/capgate/internal/lib/strictjson"
	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
)

// marshaler is the JSON codec of all messages except those of calls. It parses strictly, and encodes
// deterministically.
type marshaler struct{ runtime.JSONPb }

// NewDecoder returns the decoder of a request. r is the *body of prepare, or a copy of it if the generated code reads
// it twice.
func (m *marshaler) NewDecoder(r io.Reader) runtime.Decoder {
	return runtime.DecoderFunc(func(v any) error {
		b, ok := r.(*body)
		if !ok {
			b = &body{ReadCloser: io.NopCloser(r)}
		}
		data, err := io.ReadAll(r)
		if err != nil {
			err = unread(err)
		} else {
			err = m.decode(data, v, b.held)
		}
		b.failed = err
		return err
	})
}

// Unmarshal decodes a message. A blank text is an empty message.
func (m *marshaler) Unmarshal(data []byte, v any) error { return m.decode(data, v, nil) }

// decode is Unmarshal for a message whose memory is reserved until the response ends.
func (m *marshaler) decode(data []byte, v any, held *bodybudget.Reservation) error {
	if len(bytes.TrimSpace(data)) == 0 {
		data = []byte("{}")
	}
	var wrong *strictjson.Error
	switch _, err := held.DecodeJSON(data); {
	case errors.As(err, &wrong) && wrong.TooMany:
		return &call.Refusal{Kind: call.ResourceExhausted, Reason: "BODY_TOO_LARGE", Message: "the body " + err.Error()}
	case errors.As(err, &wrong):
		return invocation.Invalid("the body " + err.Error())
	case err != nil:
		return err
	}
	if err := m.JSONPb.Unmarshal(data, v); err != nil {
		return invocation.Invalid(problem.WrongBody(err.Error()))
	}
	return nil
}

// unread returns the refusal for an error of reading a body.
func unread(err error) error {
	var over *http.MaxBytesError
	switch {
	case errors.As(err, &over):
		return tooLarge(over.Limit)
	case isStatus(err): // an error of the gateway, which stopped reading
		return err
	case errors.Is(err, os.ErrDeadlineExceeded):
		return &call.Refusal{Kind: call.DeadlineExceeded, Reason: "BODY_STALLED",
			Message: "no more data of the body arrived for too long"}
	}
	return invocation.Invalid("the body could not be read to its end")
}

func isStatus(err error) bool {
	_, ok := status.FromError(err)
	return ok && err != nil
}

// Marshal encodes a response.
func (m *marshaler) Marshal(v any) ([]byte, error) {
	switch v := v.(type) {
	case *capgatepb.Approval, *capgatepb.ListApprovalsResponse: // the same as at the admin API, and in webhooks
		text, err := restjson.Marshal(v.(proto.Message))
		return append(text, '\n'), err
	case proto.Message:
		return encodeMessage(v)
	}
	return m.JSONPb.Marshal(v)
}

// encodeMessage encodes a message deterministically; protojson itself adds random whitespace.
func encodeMessage(m proto.Message) ([]byte, error) {
	text, err := (protojson.MarshalOptions{UseProtoNames: true, EmitDefaultValues: true}).Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("encode %T: %w", m, err)
	}
	var b bytes.Buffer
	if err := json.Compact(&b, text); err != nil {
		return nil, fmt.Errorf("encode %T: %w", m, err)
	}
	b.WriteByte('\n')
	return b.Bytes(), nil
}
