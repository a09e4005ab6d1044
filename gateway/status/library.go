package status

import (
	"context"
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/call"
)

// Headers of a gRPC status, in the canonical form of net/http.
const (
	statusHeader  = "Grpc-Status"
	messageHeader = "Grpc-Message"
	detailsHeader = "Grpc-Status-Details-Bin"
)

// Library replaces the statuses that grpc-go's server itself writes for requests that reach no method. They quote the
// request and have no details.
func Library(server http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		begun := new(atomic.Bool)
		server.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), begunKey{}, begun)))
		if !begun.Load() {
			replace(w.Header())
		}
	})
}

// begunKey is the context key of the flag that a method of a Registrar sets: whether the status will be its own.
type begunKey struct{}

// begin notes that a method of a Registrar has received the call, so that its response may end with its own status.
func begin(ctx context.Context) *atomic.Bool {
	begun, ok := ctx.Value(begunKey{}).(*atomic.Bool)
	if !ok {
		begun = new(atomic.Bool)
	}
	begun.Store(true)
	return begun
}

func replace(trailer http.Header) {
	code, err := strconv.ParseUint(trailer.Get(statusHeader), 10, 32)
	if err != nil || code == 0 || trailer.Get(detailsHeader) != "" {
		return
	}
	s := OfLibrary(codes.Code(code), trailer.Get(messageHeader))
	trailer.Set(statusHeader, strconv.FormatUint(uint64(s.Code), 10))
	trailer.Set(messageHeader, s.Message)
	trailer.Set(detailsHeader, base64.RawStdEncoding.EncodeToString(s.Details))
}

// decoded wraps decode, and replaces the library's error with the gateway's. grpc-go ends the response with its own
// error before decode returns.
func decoded(decode func(any) error, begun *atomic.Bool) func(any) error {
	return func(m any) error {
		begun.Store(false)
		err := decode(m)
		begun.Store(err == nil || errors.Is(err, io.EOF))
		st, is := status.FromError(err)
		if err == nil || errors.Is(err, io.EOF) || errors.Is(err, context.Canceled) ||
			is && len(st.Proto().GetDetails()) > 0 {
			return err
		}
		return Error(ofLibrary(st.Code(), st.Message()), call.Answered)
	}
}

// decodedStream wraps RecvMsg with decoded.
type decodedStream struct {
	grpc.ServerStream
	begun *atomic.Bool
}

// RecvMsg implements grpc.ServerStream.
func (s decodedStream) RecvMsg(m any) error { return decoded(s.ServerStream.RecvMsg, s.begun)(m) }

// OfLibrary returns the status that replaces one of a library, by its code and message.
func OfLibrary(code codes.Code, message string) relay.Status {
	return marshal(protoOf(ofLibrary(code, message), call.Answered))
}

// ofLibrary returns the refusal of a request that a gRPC library cannot read, or of a call that the library ends.
func ofLibrary(code codes.Code, message string) *call.Refusal {
	switch code {
	case codes.NotFound:
		return &call.Refusal{Kind: call.NotFound, Reason: "SERVICE_UNKNOWN",
			Message: "the gateway has no service with this name"}
	case codes.ResourceExhausted:
		return &call.Refusal{Kind: call.ResourceExhausted, Reason: "MESSAGE_TOO_LARGE",
			Message: "the request is longer than the gateway accepts"}
	case codes.Unimplemented:
		if !strings.Contains(message, "ecompress") {
			return refusedMethod
		}
		return &call.Refusal{Kind: call.Unimplemented, Reason: "ENCODING_UNSUPPORTED",
			Message: "the request is compressed in a way that the gateway does not support; it supports gzip"}
	case codes.DeadlineExceeded:
		return &call.Refusal{Kind: call.DeadlineExceeded, Reason: "DEADLINE_EXCEEDED",
			Message: "the call's deadline has passed"}
	case codes.Canceled:
		return &call.Refusal{Kind: call.Canceled, Reason: "CLIENT_GONE", Message: "the caller left"}
	}
	return &call.Refusal{Kind: call.InvalidArgument, Reason: "REQUEST_MALFORMED",
		Message: "the request is not a message of this method, or a string in it is not valid UTF-8"}
}
