package jwks_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/capgate/capgate/gateway/frontdoor/jwks"
	"github.com/capgate/capgate/gateway/frontdoor/web"
)

// TestKeys: the keys are published, also to caches, while some fleet requires assertions.
func TestKeys(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		set          string
		unused       bool
		method, path string
		code         int // 0: another door serves the request
		body, cache  string
	}{
		"get":        {set: "{}", code: http.StatusOK, body: "{}", cache: "public, max-age=300"},
		"head":       {set: "{}", method: http.MethodHead, code: http.StatusOK, cache: "public, max-age=300"},
		"post":       {set: "{}", method: http.MethodPost, code: http.StatusMethodNotAllowed},
		"no key yet": {code: http.StatusServiceUnavailable},
		"not used":   {set: "{}", unused: true},
		"other path": {set: "{}", path: "/.well-known/jwks"},
	} {
		var door web.Door = jwks.New(func() ([]byte, bool) {
			if test.set == "" {
				return nil, !test.unused
			}
			return []byte(test.set), !test.unused
		})
		method, path := http.MethodGet, jwks.Path
		if test.method != "" {
			method = test.method
		}
		if test.path != "" {
			path = test.path
		}
		w, r := httptest.NewRecorder(), httptest.NewRequest(method, path, nil)
		if door.Match(r) != (test.code != 0) {
			t.Errorf("%s: matches %t", name, door.Match(r))
		}
		if test.code == 0 {
			continue
		}
		door.ServeHTTP(w, r)
		if w.Code != test.code || test.body != "" && w.Body.String() != test.body ||
			w.Header().Get("Cache-Control") != test.cache && test.cache != "" {
			t.Errorf("%s: %d %v %s", name, w.Code, w.Header(), w.Body)
		}
	}
	if jwks.New(nil).Match(httptest.NewRequest(http.MethodGet, jwks.Path, nil)) {
		t.Error("a gateway without keys publishes some")
	}
}
