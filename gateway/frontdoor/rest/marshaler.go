package rest

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/genproto/googleapis/api/httpbody"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/plainjson"
	"github.com/capgate/capgate/internal/lib/restjson"
	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
)

// marshaler is the JSON of the API as grpc-gateway asks for it. It knows the messages of
// calls one by one, because their JSON text must go through untouched.
type marshaler struct{}

var _ runtime.Marshaler = marshaler{}

// ContentType is JSON, except for messages with a type of their own. Errors do not use it.
func (marshaler) ContentType(v any) string {
	if b, ok := v.(*httpbody.HttpBody); ok {
		return b.GetContentType()
	}
	return "application/json"
}

// NewDecoder returns the decoder of a request. r is the *body of prepare, or a copy of it if the generated code
// reads it twice.
func (marshaler) NewDecoder(r io.Reader) runtime.Decoder {
	return runtime.DecoderFunc(func(v any) error {
		b, ok := r.(*body)
		if !ok {
			b = &body{ReadCloser: io.NopCloser(r)}
		}
		b.failed = decode(b, v)
		return b.failed
	})
}

func decode(b *body, v any) error {
	data, err := io.ReadAll(b)
	if err != nil {
		return unread(err)
	}
	switch v := v.(type) {
	case *capgatepb.InvokeRequest:
		err = decodeInvoke(data, b.capability, v)
	case **structpb.Struct: // the arguments of a tool
		b.args, err = objectOf(data)
	case proto.Message:
		err = decodeMessage(data, v)
	case **capgatepb.Tenant: // where a body is a field of a request
		*v = new(capgatepb.Tenant)
		err = decodeMessage(data, *v)
	case **capgatepb.Key:
		*v = new(capgatepb.Key)
		err = decodeMessage(data, *v)
	default:
		return &call.Refusal{Kind: call.Internal, Message: fmt.Sprintf("no JSON form of %T", v)}
	}
	if err != nil {
		return wrongBody(v, err)
	}
	return nil
}

// unread is why a body could not be read.
func unread(err error) error {
	var over *http.MaxBytesError
	switch {
	case errors.As(err, &over):
		return tooLarge(over.Limit)
	case isStatus(err): // of the gateway, which reads no more
		return err
	case errors.Is(err, os.ErrDeadlineExceeded):
		return &call.Refusal{Kind: call.DeadlineExceeded, Reason: "BODY_STALLED",
			Message: "nothing more came of the body for too long"}
	}
	return &call.Refusal{Kind: call.InvalidArgument, Reason: "INVALID_BODY", Message: "the body could not be read to its end"}
}

// wrongBody returns the problem of a body. Ambiguous arguments or configurations have the same reason as in gRPC
// calls.
func wrongBody(v any, err error) *call.Refusal {
	r := &call.Refusal{Kind: call.InvalidArgument, Reason: "INVALID_BODY", Message: err.Error()}
	var twice *twiceError
	if !errors.As(err, &twice) {
		return r
	}
	_, arguments := v.(**structpb.Struct)
	_, call := v.(*capgatepb.InvokeRequest)
	if arguments || call && twice.in != "" {
		r.Reason = "AMBIGUOUS_ARGUMENTS"
	}
	if arguments || call && twice.in == "args" {
		r.Message = fmt.Sprintf("the JSON of the arguments has a name twice in one object, at byte %d of the body", twice.at)
	}
	return r
}

func isStatus(err error) bool {
	_, ok := status.FromError(err)
	return ok && err != nil
}

// Unmarshal decodes a request that has no path.
func (m marshaler) Unmarshal(data []byte, v any) error {
	return m.NewDecoder(&body{ReadCloser: io.NopCloser(bytes.NewReader(data))}).Decode(v)
}

// NewEncoder writes responses as Marshal makes them.
func (m marshaler) NewEncoder(w io.Writer) runtime.Encoder {
	return runtime.EncoderFunc(func(v any) error {
		b, err := m.Marshal(v)
		if err != nil {
			return err
		}
		_, err = w.Write(b)
		return err
	})
}

// Marshal encodes a response.
func (marshaler) Marshal(v any) ([]byte, error) {
	switch v := v.(type) {
	case *capgatepb.InvokeResponse:
		return encodeInvoke(v)
	case *httpbody.HttpBody:
		return v.GetData(), nil
	case *capgatepb.Approval, *capgatepb.ListApprovalsResponse: // the same as at the admin API, and in webhooks
		text, err := restjson.Marshal(v.(proto.Message))
		return append(text, '\n'), err
	case proto.Message:
		return encodeMessage(v)
	}
	return nil, fmt.Errorf("no JSON form of %T", v)
}

// encodeMessage writes a message so that it is the same text each time: protojson itself
// puts in blanks at random.
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

// encodeInvoke writes result_json as JSON, or as base64 if it is not JSON.
func encodeInvoke(resp *capgatepb.InvokeResponse) ([]byte, error) {
	out := make([]byte, 0, len(resp.GetResultJson())+len(resp.GetError())+64)
	return appendInvoke(out, resp.GetResultJson(), resp.GetError())
}

// appendInvoke appends what encodeInvoke writes to an empty slice.
func appendInvoke(out, result []byte, toolError string) ([]byte, error) {
	out = append(out, '{')
	switch {
	case len(result) == 0:
	case isText(result):
		out = append(append(out, `"result":`...), bytes.Trim(result, " \t\r\n")...)
	default:
		out = base64.StdEncoding.AppendEncode(append(out, `"result_json":"`...), result)
		out = append(out, '"')
	}
	if toolError != "" {
		if len(out) > 1 {
			out = append(out, ',')
		}
		text, err := plainjson.Marshal(toolError)
		if err != nil {
			return nil, fmt.Errorf("encode the tool's error: %w", err)
		}
		out = append(append(out, `"error":`...), text...)
	}
	return append(out, "}\n"...), nil
}
