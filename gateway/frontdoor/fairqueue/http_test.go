package fairqueue

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestRequestsPass(t *testing.T) {
	t.Parallel()
	ts := open(t, 1)
	var ctx context.Context
	h := ts.Handler(func(r *http.Request) (tenant, from string) { return r.Host, "" }, http.NotFoundHandler(),
		http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			ctx = r.Context()
			_, _ = io.Copy(w, r.Body)
		}))
	for _, text := range []string{"", "text"} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader(text)))
		if w.Code != http.StatusOK || w.Body.String() != text {
			t.Errorf("%d %q", w.Code, w.Body)
		}
	}
	b := ctx.Value(bodyKey{}).(*body)
	Begun(ctx)
	b.ReadCloser, b.turnstile = io.NopCloser(strings.NewReader("more")), nil // it needs it no more
	if text, err := io.ReadAll(b); string(text) != "more" || err != nil {
		t.Error(text, err)
	}
	Begun(t.Context()) // which is of no request
}

func TestRequestsAreRefused(t *testing.T) {
	t.Parallel()
	ts := open(t, 1)
	letGo := ts.hold()
	full := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTooManyRequests) })
	h := ts.Handler(func(r *http.Request) (tenant, from string) { return r.Host, "" }, full,
		http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
	ask := func(ctx context.Context, host string) int {
		w, r := httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil)
		r.Host = host
		h.ServeHTTP(w, r)
		return w.Code
	}
	first := make(chan int)
	go func() { first <- ask(t.Context(), "a") }()
	ts.await(1)
	if got := ask(t.Context(), "a"); got != http.StatusTooManyRequests {
		t.Errorf("who comes when too many wait is told %d", got)
	}
	gone, leave := context.WithCancel(t.Context())
	leave()
	if got := ask(gone, "b"); got != http.StatusOK {
		t.Errorf("who has gone is told %d", got) // it would be 200 where nothing was said
	}
	letGo()
	if got := <-first; got != http.StatusNoContent {
		t.Errorf("who waited is told %d", got)
	}
}
