package turnstile

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
)

// Whatever a request that has begun waits for, the next one may begin.
func TestNobodyWaitsForAnothersBytes(t *testing.T) {
	t.Parallel()
	full := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the turnstile is full") })
	for name, give := range map[string]func(http.ResponseWriter, *http.Request){
		"the call":       func(_ http.ResponseWriter, r *http.Request) { Through(r.Context()) },
		"its reader":     func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "x") },
		"a status":       func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) },
		"what it pushes": func(w http.ResponseWriter, _ *http.Request) { _ = http.NewResponseController(w).Flush() },
		"its body":       nil,
	} {
		ts := open(t, 1, 10)
		body, begin := io.Pipe()
		waits, goOn, ended := make(chan struct{}), make(chan struct{}), make(chan struct{})
		h := ts.Handler(func(*http.Request) string { return "" }, full, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if give == nil {
				_, _ = io.ReadAll(r.Body)
				return
			}
			give(w, r)
			close(waits)
			<-goOn
		}))
		go func() {
			defer close(ended)
			h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", body))
		}()
		if give == nil {
			if _, err := begin.Write([]byte("x")); err != nil { // it waits for what comes after that
				t.Fatal(err)
			}
		} else {
			<-waits
		}
		p, err := ts.Enter(t.Context(), "another")
		if err != nil {
			t.Fatal(name, err)
		}
		p.Leave()
		close(goOn)
		_ = begin.Close()
		<-ended
		if ts.free != 1 || ts.waiting() != 0 {
			t.Errorf("%s: %d places are free", name, ts.free)
		}
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	ts := open(t, 1, 1)
	p, err := ts.Enter(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan string, 1)
	full := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTooManyRequests) })
	h := ts.Handler(func(r *http.Request) string { return r.Host }, full, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { served <- r.Host }))
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
	if ask(gone, "b"); len(served) != 0 {
		t.Error("who has gone is served")
	}
	p.Leave()
	if got := <-first; got != http.StatusOK || <-served != "a" {
		t.Errorf("who waited is told %d", got)
	}
	if ts.free != 1 {
		t.Errorf("%d places are free", ts.free)
	}
}
