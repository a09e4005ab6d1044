package problem

import (
	"net/http"

	"google.golang.org/grpc/codes"
)

// Mux serves mux, and answers what none of its patterns takes with a problem in place of a line of text.
func Mux(mux *http.ServeMux) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, pattern := mux.Handler(r); pattern != "" {
			mux.ServeHTTP(w, r)
			return
		}
		asked := &verdict{header: http.Header{}}
		mux.ServeHTTP(asked, r)
		switch asked.status {
		case http.StatusMethodNotAllowed:
			w.Header().Set("Allow", asked.header.Get("Allow"))
			Write(w, r, MethodNotAllowed())
		case http.StatusNotFound:
			Write(w, r, NoSuchPath())
		default: // a path that is to be written otherwise
			mux.ServeHTTP(w, r)
		}
	})
}

// NoSuchPath is the answer where nothing is.
func NoSuchPath() Problem {
	return Own(http.StatusNotFound, codes.NotFound, "NO_SUCH_PATH", "there is nothing at this path")
}

// MethodNotAllowed is the answer to a method that a path has not; its header needs Allow.
func MethodNotAllowed() Problem {
	return Own(http.StatusMethodNotAllowed, codes.Unimplemented, "METHOD_NOT_ALLOWED",
		"this path has no such method; the Allow header says which it has")
}

// CrossSite answers what a browser sends for a page of another site.
func CrossSite(w http.ResponseWriter, r *http.Request) {
	Write(w, r, Own(http.StatusForbidden, codes.PermissionDenied, "CROSS_SITE", "a page of another site may not do that"))
}

// verdict is what a mux says of a request that it has no pattern for.
type verdict struct {
	header http.Header
	status int
}

func (v *verdict) Header() http.Header         { return v.header }
func (v *verdict) WriteHeader(status int)      { v.status = status }
func (v *verdict) Write(p []byte) (int, error) { return len(p), nil }
