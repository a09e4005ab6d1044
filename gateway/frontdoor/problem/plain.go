package problem

import (
	"net/http"
	"strings"

	"google.golang.org/grpc/codes"

	"github.com/capgate/capgate/internal/lib/response"
)

// Plain serves next, and replaces errors in plain text, which libraries write, with problems.
func Plain(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		out := &response.Replaced{ResponseWriter: w, Withhold: func(status int) bool {
			return status >= http.StatusBadRequest && strings.HasPrefix(w.Header().Get("Content-Type"), "text/plain")
		}}
		if next.ServeHTTP(out, r); out.Status != 0 {
			Write(w, r, ofStatus(out.Status))
		}
	})
}

// ofStatus returns the problem for the status of a library's response.
func ofStatus(status int) Problem {
	switch status {
	case http.StatusNotFound:
		return NoSuchPath()
	case http.StatusMethodNotAllowed:
		return MethodNotAllowed()
	case http.StatusUnsupportedMediaType:
		return Own(status, codes.InvalidArgument, "UNSUPPORTED_MEDIA_TYPE",
			"the path does not accept this Content-Type")
	}
	if status < http.StatusInternalServerError {
		return Own(status, codes.InvalidArgument, "REQUEST_MALFORMED", "the request is invalid")
	}
	return Own(status, codes.Internal, "INTERNAL", "the gateway failed to answer the request")
}
