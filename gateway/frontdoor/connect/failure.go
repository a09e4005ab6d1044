package connect

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"

	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/gateway/status"
	"github.com/capgate/capgate/internal/call"
)

// failure is the error of a call or request in the form for the client.
type failure struct {
	status *grpcstatus.Status // its code has a name
	meta   http.Header        // further headers
}

// Error implements error.
func (f *failure) Error() string { return f.status.Message() }

// failureOf returns the failure for an error of a call, or of the gateway, for which p is the progress of the call.
func failureOf(err error, p call.Progress) *failure {
	var f *failure
	if errors.As(err, &f) {
		return f
	}
	var r *call.Refusal
	if errors.As(err, &r) {
		err = status.Of(r, p).Err()
	}
	st := grpcstatus.Convert(err)
	if code := st.Code(); code == codes.OK || code > codes.Unauthenticated {
		unnamed := st.Proto()
		unnamed.Code = int32(codes.Unknown)
		st = grpcstatus.FromProto(unnamed)
	}
	f = &failure{status: st, meta: http.Header{}}
	if after := status.RetryAfter(status.DetailsOf(err).RetryAfter.Seconds()); after != "" {
		f.meta.Set("Retry-After", after)
	}
	// A browser would attribute a backend's challenge to the gateway.
	own := status.InfoOf(err)
	if challenge := status.Challenge(st.Code(), own.GetReason(), own.GetMetadata()); challenge != "" {
		f.meta.Set("WWW-Authenticate", challenge)
	}
	return f
}

// addMeta adds the further headers to those of a response.
func (f *failure) addMeta(to http.Header) {
	for name, values := range f.meta {
		to[name] = append(to[name], values...)
	}
}

// fields appends the trailers of gRPC-Web.
func (f *failure) fields(to []relay.Field) []relay.Field {
	to = append(to, relay.Field{Name: "grpc-status", Value: strconv.Itoa(int(f.status.Code()))},
		relay.Field{Name: "grpc-message", Value: percentEncoded(f.status.Message())})
	if p := f.status.Proto(); len(p.GetDetails()) > 0 {
		if raw, err := proto.Marshal(p); err == nil {
			to = append(to, relay.Field{Name: "grpc-status-details-bin",
				Value: base64.RawStdEncoding.EncodeToString(raw)})
		}
	}
	for name, values := range f.meta {
		for _, v := range values {
			to = append(to, relay.Field{Name: strings.ToLower(name), Value: v})
		}
	}
	return to
}

// percentEncoded returns a text in the form of grpc-message (gRPC over HTTP/2, "Status-Message").
func percentEncoded(text string) string {
	const digits = "0123456789ABCDEF"
	var out []byte
	for i := range len(text) {
		c := text[i]
		special := c < ' ' || c > '~' || c == '%'
		if special && out == nil {
			out = append(make([]byte, 0, 2*len(text)), text[:i]...)
		}
		switch {
		case special:
			out = append(out, '%', digits[c>>4], digits[c&0xf])
		case out != nil:
			out = append(out, c)
		}
	}
	if out == nil {
		return text
	}
	return string(out)
}

// wireError is an error in the JSON of Connect.
type wireError struct {
	Code    string       `json:"code"`
	Message string       `json:"message,omitempty"`
	Details []wireDetail `json:"details,omitempty"`
}

type wireDetail struct {
	Type  string          `json:"type"`
	Value string          `json:"value"`
	Debug json.RawMessage `json:"debug,omitempty"`
}

func (f *failure) wire() *wireError {
	e := &wireError{Code: codeNames[f.status.Code()], Message: f.status.Message()}
	for _, d := range f.status.Proto().GetDetails() {
		e.Details = append(e.Details, wireDetail{Type: d.GetTypeUrl()[strings.LastIndexByte(d.GetTypeUrl(), '/')+1:],
			Value: base64.RawStdEncoding.EncodeToString(d.GetValue()), Debug: debug(d)})
	}
	return e
}

// debug returns a detail as JSON for readers, or nil if its type is unknown.
func debug(d *anypb.Any) json.RawMessage {
	m, err := d.UnmarshalNew()
	if err != nil {
		return nil
	}
	text, err := protojson.Marshal(m)
	if err != nil {
		return nil
	}
	return text
}

// codeNames has the names of codes in the JSON of Connect.
//
//nolint:gochecknoglobals // a table
var codeNames = [...]string{
	codes.Canceled:           "canceled",
	codes.Unknown:            "unknown",
	codes.InvalidArgument:    "invalid_argument",
	codes.DeadlineExceeded:   "deadline_exceeded",
	codes.NotFound:           "not_found",
	codes.AlreadyExists:      "already_exists",
	codes.PermissionDenied:   "permission_denied",
	codes.ResourceExhausted:  "resource_exhausted",
	codes.FailedPrecondition: "failed_precondition",
	codes.Aborted:            "aborted",
	codes.OutOfRange:         "out_of_range",
	codes.Unimplemented:      "unimplemented",
	codes.Internal:           "internal",
	codes.Unavailable:        "unavailable",
	codes.DataLoss:           "data_loss",
	codes.Unauthenticated:    "unauthenticated",
}

// writeUnary writes the failure of a unary request of Connect.
func (f *failure) writeUnary(w http.ResponseWriter) {
	head := w.Header()
	f.addMeta(head)
	head["Content-Type"] = []string{"application/json"}
	e := f.wire()
	text, err := json.Marshal(e)
	if err != nil { // of details
		e.Details = nil
		text, _ = json.Marshal(e)
	}
	w.WriteHeader(status.HTTP(f.status.Code()))
	_, _ = w.Write(text) // fails only if the client has disconnected
}
