package request

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
)

func TestScope(t *testing.T) {
	t.Parallel()
	type key int
	plain := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
	if r := With(plain, key(0), "v"); r == plain || r.Context().Value(key(0)) != "v" ||
		plain.Context().Value(key(0)) != nil {
		t.Errorf("a request without a Scope is not copied: %t; the copy has %v, the request %v", r != plain,
			r.Context().Value(key(0)), plain.Context().Value(key(0)))
	}
	ctx, cancel := context.WithCancel(context.WithValue(t.Context(), key(-1), "outer"))
	r := plain.WithContext(&Scope{Context: ctx})
	for i := range scopeSize {
		if With(r, key(i), i) != r {
			t.Errorf("the request is copied for value %d", i)
		}
	}
	again, more := With(r, key(0), "again"), With(r, key(scopeSize), "more")
	if again == r || again.Context().Value(key(0)) != "again" || r.Context().Value(key(0)) != 0 {
		t.Errorf("a value is replaced in place: copied %t; the copy has %v, the request %v", again != r,
			again.Context().Value(key(0)), r.Context().Value(key(0)))
	}
	if more == r || more.Context().Value(key(scopeSize)) != "more" || more.Context().Value(key(1)) != 1 ||
		more.Context().Value(key(-1)) != "outer" {
		t.Errorf("values are lost: copied %t; the copy has %v, %v, %v", more != r,
			more.Context().Value(key(scopeSize)), more.Context().Value(key(1)), more.Context().Value(key(-1)))
	}
	within := &struct{ Scope }{Scope{Context: t.Context()}}
	if r := plain.WithContext(within); With(r, key(0), "v") != r || within.Value(key(0)) != "v" {
		t.Error("the request is copied for a value of a context that embeds a Scope")
	}
	child, stop := context.WithCancel(more.Context())
	defer stop()
	if cancel(); child.Err() == nil {
		t.Error("the end of the context is lost")
	}
}
