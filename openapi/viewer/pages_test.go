package viewer_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/capgate/capgate/openapi/viewer"
)

// counter counts the bytes that a page writes.
type counter struct {
	*httptest.ResponseRecorder
	written int
}

// Write implements io.Writer.
func (c *counter) Write(p []byte) (int, error) {
	c.written += len(p)
	return len(p), nil
}

// TestHeadUnpacksNothing: a request for the head of a packed page, by a client that takes no compression, has the
// page's headers and no body.
func TestHeadUnpacksNothing(t *testing.T) {
	t.Parallel()
	serve := viewer.Pages()["/docs/swagger-ui-bundle.js"]
	ask := func(method string) *counter {
		w := &counter{ResponseRecorder: httptest.NewRecorder()}
		serve(w, httptest.NewRequestWithContext(t.Context(), method, "/docs/swagger-ui-bundle.js", nil))
		return w
	}
	head, get := ask(http.MethodHead), ask(http.MethodGet)
	if head.written != 0 || get.written < 1<<20 {
		t.Errorf("HEAD unpacked %d bytes, GET %d", head.written, get.written)
	}
	if tag := head.Header().Get("ETag"); tag == "" || tag != get.Header().Get("ETag") {
		t.Errorf("HEAD has the tag %q, GET %q", tag, get.Header().Get("ETag"))
	}
}

// TestPagesAreUnpacked: a client that refuses gzip gets a page without it.
func TestPagesAreUnpacked(t *testing.T) {
	t.Parallel()
	for accept, want := range map[string]string{"": "", "gzip, br": "gzip", "gzip;q=0": "", "*;q=0": "",
		"x-gzip": "gzip", "gzip;q=0, *": "", "*": "gzip"} {
		w := httptest.NewRecorder()
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/docs/swagger-ui-bundle.js", nil)
		r.Header.Set("Accept-Encoding", accept)
		viewer.Pages()["/docs/swagger-ui-bundle.js"](w, r)
		if got := w.Header().Get("Content-Encoding"); got != want {
			t.Errorf("%q: the coding %q, want %q", accept, got, want)
		}
	}
}

// TestPagesLoadNothingFromElsewhere: every file forbids sources outside the gateway, and the packed ones say that their
// form depends on the request.
func TestPagesLoadNothingFromElsewhere(t *testing.T) {
	t.Parallel()
	for path, serve := range viewer.Pages() {
		w := httptest.NewRecorder()
		serve(w, httptest.NewRequestWithContext(t.Context(), http.MethodHead, path, nil))
		head := w.Header()
		if policy := head.Get("Content-Security-Policy"); !strings.HasPrefix(policy,
			"default-src 'none'; script-src 'self';") {
			t.Errorf("%s: the policy %q", path, policy)
		}
		packed := strings.Contains(path, "swagger-ui")
		if varies := head.Get("Vary") == "Accept-Encoding"; varies != packed {
			t.Errorf("%s: Vary: %q", path, head.Get("Vary"))
		}
	}
}
