package problem

import (
	"crypto/rand"
	"io"
	"net/http"
	"strings"

	"google.golang.org/grpc/codes"

	"github.com/capgate/capgate/gateway/frontdoor/request"
)

// RequestID is the header with the id of a request, in requests and responses.
const RequestID = "X-Request-Id"

// maxRequestID is the maximum length of a request's id, in bytes.
const maxRequestID = 128

// WithRequestID adds a new id to each request without one, and sets the id in the response header. Check rejects
// invalid ids. gRPC over HTTP/2 passes unchanged.
func WithRequestID(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor != 1 && isGRPC(r.Header.Get("Content-Type")) {
			next.ServeHTTP(w, r)
			return
		}
		ids := r.Header[RequestID]
		good := len(ids) == 0 || len(ids) == 1 && isRequestID(ids[0])
		if len(ids) == 0 || ids[0] == "" || !good {
			ids = []string{rand.Text()}
			r.Header[RequestID] = ids
		}
		w.Header()[RequestID] = ids[:1:1]
		defer drain(r, r.Body)
		if !good {
			r = request.With(r, badIDKey{}, true)
		}
		next.ServeHTTP(w, r)
	})
}

type badIDKey struct{}

// Check rejects requests with an invalid id, which WithRequestID has replaced: the client would search for it in vain.
// It also rejects gRPC over HTTP/1.1, which is not supported.
func Check(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.ProtoMajor == 1 && isGRPC(r.Header.Get("Content-Type")):
			Write(w, r, Own(http.StatusUnsupportedMediaType, codes.FailedPrecondition, "HTTP_VERSION_UNSUPPORTED",
				"gRPC needs HTTP/2, but this request arrived over HTTP/1.1: a proxy may have changed it; "+
					"over HTTP/1.1 use JSON, Connect or gRPC-Web"))
		case r.Context().Value(badIDKey{}) != nil:
			Write(w, r, Own(http.StatusBadRequest, codes.InvalidArgument, "INVALID_HEADER",
				"the header X-Request-Id may occur once, with at most 128 bytes of printable ASCII"))
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// drain reads the unread rest of a short body. Over HTTP/2, a response may end before its request does, and then the
// stream is reset. curl loses the response if the reset arrives early, contrary to RFC 9113 §8.1.
func drain(r *http.Request, body io.Reader) {
	const short = 64 << 10
	if r.ProtoMajor == 2 && r.ContentLength > 0 && r.ContentLength <= short && r.Header.Get("Expect") == "" {
		var first [1]byte
		if n, err := body.Read(first[:]); n > 0 || err == nil { // most handlers have read it to its end
			_, _ = io.CopyN(io.Discard, body, r.ContentLength) // an error means that the client has disconnected
		}
	}
}

func isRequestID(id string) bool {
	for i := range len(id) {
		if id[i] < 0x20 || id[i] > 0x7e {
			return false
		}
	}
	return len(id) <= maxRequestID
}

// isGRPC reports whether a request uses the gRPC protocol, whose responses are not problem documents.
func isGRPC(contentType string) bool {
	rest, ok := strings.CutPrefix(strings.ToLower(contentType), "application/grpc")
	return ok && !strings.HasPrefix(rest, "-web")
}
