package jwks

import (
	"net/http"
	"strconv"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/capgate/capgate/gateway/frontdoor/header"
	"github.com/capgate/capgate/gateway/frontdoor/problem"
	"github.com/capgate/capgate/internal/call"
)

// Path is the path of the JWK Set.
const Path = "/.well-known/jwks.json"

// maxAge is the cache time of the set, in seconds. A new secret must be published for twice that time before it signs,
// because a server and a cache on its way may each keep the set.
const maxAge = 300

// Keys returns the JWK Set; nil while it is not known. used reports whether the gateway signs assertions.
type Keys func() (set []byte, used bool)

// Door is a web.Door.
type Door struct{ keys Keys }

// New returns the door. If keys is nil, it matches no request.
func New(keys Keys) Door {
	if keys == nil {
		keys = func() ([]byte, bool) { return nil, false }
	}
	return Door{keys}
}

// Match implements web.Door.
func (d Door) Match(r *http.Request) bool {
	if r.URL.Path != Path {
		return false
	}
	_, used := d.keys()
	return used
}

// Protocol implements web.Door. No call of the gateway follows, so that the access log needs no name.
func (Door) Protocol(*http.Request) call.Protocol { return call.UnknownProtocol }

// Headers implements web.Door.
func (Door) Headers() header.Door { return header.Door{} }

// Timeout implements web.Door.
func (Door) Timeout(*http.Request) (time.Duration, bool) { return 0, false }

// ServeHTTP implements http.Handler.
func (d Door) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	set, _ := d.keys()
	switch {
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		w.Header().Set("Allow", "GET, HEAD")
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	case set == nil:
		problem.Write(w, r, problem.Own(http.StatusServiceUnavailable, codes.Unavailable, "ASSERTION_UNAVAILABLE",
			"the keys are not known yet; retry the request"))
		return
	}
	head := w.Header()
	head.Set("Content-Type", "application/jwk-set+json") // RFC 7517 §8.5.2
	head.Set("Cache-Control", "public, max-age="+strconv.Itoa(maxAge))
	head.Set("X-Content-Type-Options", "nosniff")
	head.Set("Content-Length", strconv.Itoa(len(set)))
	w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodGet {
		_, _ = w.Write(set) // fails only if the client has disconnected
	}
}
