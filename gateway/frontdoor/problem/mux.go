package problem

import (
	"cmp"
	"net/http"
	"strings"

	"google.golang.org/grpc/codes"
)

// Mux serves mux, and responds with a problem to requests without a pattern, instead of a line of text. methods
// returns the methods of a path for the Allow header, if mux does not know all of them; nil, or an empty result, means
// those of mux.
func Mux(mux *http.ServeMux, methods func(path string) []string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, pattern := mux.Handler(r); pattern != "" {
			mux.ServeHTTP(w, r)
			return
		}
		asked := &verdict{header: http.Header{}}
		mux.ServeHTTP(asked, r)
		switch asked.status {
		case http.StatusMethodNotAllowed:
			allow := asked.header.Get("Allow")
			if methods != nil {
				allow = cmp.Or(strings.Join(methods(r.URL.Path), ", "), allow)
			}
			w.Header().Set("Allow", allow)
			Write(w, r, MethodNotAllowed())
		case http.StatusNotFound:
			Write(w, r, NoSuchPath())
		default: // a redirect to another form of the path
			mux.ServeHTTP(w, r)
		}
	})
}

// NoSuchPath returns the problem of an unknown path.
func NoSuchPath() Problem {
	return Own(http.StatusNotFound, codes.NotFound, "NO_SUCH_PATH", "there is nothing at this path")
}

// MethodNotAllowed returns the problem of an unsupported method. The caller must set the Allow header.
func MethodNotAllowed() Problem {
	return Own(http.StatusMethodNotAllowed, codes.Unimplemented, "METHOD_NOT_ALLOWED",
		"the path does not support this method; see the Allow header")
}

// CrossSite responds to a cross-site request of a browser.
func CrossSite(w http.ResponseWriter, r *http.Request) {
	Write(w, r, Own(http.StatusForbidden, codes.PermissionDenied, "CROSS_SITE",
		"cross-site requests are not permitted"))
}

// verdict records the response of a mux to a request without a pattern.
type verdict struct {
	header http.Header
	status int
}

func (v *verdict) Header() http.Header         { return v.header }
func (v *verdict) WriteHeader(status int)      { v.status = status }
func (v *verdict) Write(p []byte) (int, error) { return len(p), nil }
