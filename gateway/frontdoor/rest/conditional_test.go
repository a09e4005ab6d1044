package rest_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"

	"github.com/capgate/capgate/gateway/frontdoor/rest"
)

// Each JSON response to a GET has an ETag, unless it has no-store, is incomplete, or has an ETag already.
func TestConditional(t *testing.T) {
	t.Parallel()
	const text = `{"a":1}`
	h := rest.Conditional(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		head, query := w.Header(), r.URL.Query()
		head.Set("Content-Type", "application/json")
		head.Set("Content-Length", strconv.Itoa(len(text)))
		switch {
		case query.Has("text"):
			head.Set("Content-Type", "text/plain")
		case query.Has("secret"):
			head.Set("Cache-Control", "no-store")
		case query.Has("pieces"):
			head.Del("Content-Length")
		case query.Has("own"):
			head.Set("ETag", `"own"`)
			if query.Has("gone") {
				w.WriteHeader(http.StatusGone)
			}
		case query.Has("failed"):
			w.WriteHeader(http.StatusNotFound)
		case query.Has("said"):
			w.WriteHeader(http.StatusOK)
		}
		_, _ = io.WriteString(w, text)
	}))
	ask := func(method, query string, known ...string) *httptest.ResponseRecorder {
		r := httptest.NewRequestWithContext(t.Context(), method, "/?"+query, nil)
		r.Header["If-None-Match"] = known
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w
	}
	get := ask("GET", "").Header()
	tag, said, head := get.Get("ETag"), ask("GET", "said").Header().Get("ETag"), ask("HEAD", "").Header().Get("ETag")
	if len(tag) < 10 || said != tag || head != tag {
		t.Errorf("the ETag %q; with a status %q, of HEAD %q", tag, said, head)
	}
	if got := get.Get("Cache-Control"); got != "private, no-cache" {
		t.Errorf("Cache-Control: %s", got)
	}
	for query, want := range map[string]string{"text": "", "secret": "", "pieces": "", "own": `"own"`, "failed": ""} {
		if w := ask("GET", query, tag); w.Header().Get("ETag") != want || w.Body.String() != text ||
			w.Code == http.StatusNotModified {
			t.Errorf("%s: %d %v %s", query, w.Code, w.Header(), w.Body)
		}
	}
	if w := ask("GET", "own&gone", `"own"`); w.Code != http.StatusGone || w.Body.String() != text {
		t.Errorf("an error that the client knows: %d %s", w.Code, w.Body)
	}
	if w := ask("POST", "", "*"); w.Header().Get("ETag") != "" || w.Code != http.StatusOK {
		t.Errorf("POST: %d %v", w.Code, w.Header())
	}
	for _, known := range []string{tag, "W/" + tag, `"x", ` + tag, "*"} {
		if w := ask("GET", "said", known); w.Code != http.StatusNotModified || w.Body.Len() > 0 ||
			w.Header().Get("ETag") != tag || w.Header().Get("Content-Length") != "" {
			t.Errorf("%s: %d %v", known, w.Code, w.Header())
		}
	}
}
