package console_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/capgate/capgate/console"
	"github.com/capgate/capgate/internal/mcpclients"
	"github.com/capgate/capgate/internal/testkit/check"
)

// fake is an admin API with the answers of testdata/api.json, by path; those of changes also by method. In these,
// @-4m is the time four minutes ago, and its day in a field date.
type fake struct {
	answers map[string]json.RawMessage
	change  func(field, value string) string // of every string in an answer; nil: none
	leaving chan struct{}                    // ends the feeds
}

func startFake(t *testing.T, change func(field, value string) string) (origin string) {
	t.Helper()
	text, err := os.ReadFile("testdata/api.json")
	check.Must(t, err)
	f := &fake{change: change, leaving: make(chan struct{})}
	check.Must(t, json.Unmarshal(text, &f.answers))
	mux := pages()
	mux.HandleFunc("/v1/", f.serve)
	mux.HandleFunc("GET "+mcpclients.Path, mcpclients.Serve)
	mux.Handle("/inbox/v1/", http.StripPrefix("/inbox", http.HandlerFunc(f.serve)))
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	t.Cleanup(func() { close(f.leaving) })
	return s.URL
}

// startStranger returns a gateway that does not know who asks.
func startStranger(t *testing.T) (origin string) {
	t.Helper()
	mux := pages()
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/signin") {
			_, _ = fmt.Fprint(w, "<!doctype html><title>Sign in</title>")
			return
		}
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = fmt.Fprint(w, `{"status":401,"reason":"OPERATOR_UNKNOWN","detail":"sign in"}`)
	})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s.URL
}

func pages() *http.ServeMux {
	mux := http.NewServeMux()
	for _, m := range []console.Mode{console.Console, console.Inbox} {
		h := console.Handler(m)
		exact := m.Page()
		if exact == "/" {
			exact = "/{$}"
		}
		mux.Handle(exact, h)
		mux.Handle(m.Assets(), h)
	}
	return mux
}

func (f *fake) serve(w http.ResponseWriter, r *http.Request) {
	switch {
	case strings.HasSuffix(r.URL.Path, "/events"):
		f.feed(w, r)
		return
	case strings.HasPrefix(r.URL.Path, "/v1/approvals/") && r.Method == http.MethodGet && f.answers[r.URL.Path] == nil:
		f.approval(w, strings.TrimPrefix(r.URL.Path, "/v1/approvals/"))
		return
	}
	raw, ok := f.answers[r.URL.Path]
	if changed, is := f.answers[r.Method+" "+r.URL.Path]; is {
		raw, ok = changed, true
	}
	if !ok {
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(http.StatusNotFound)
		_, _ = fmt.Fprintf(w, `{"status":404,"reason":"NO_SUCH_PATH","detail":"there is nothing at this path"}`)
		return
	}
	var value any
	_ = json.Unmarshal(raw, &value) // it is part of a document that was read
	f.write(w, f.fill("", value), r.URL.Query().Get("state"))
}

func (f *fake) write(w http.ResponseWriter, value any, state string) {
	if page, ok := value.(map[string]any); ok && state != "" {
		var kept []any
		all, _ := page["approvals"].([]any)
		for _, a := range all {
			if a.(map[string]any)["state"] == state {
				kept = append(kept, a)
			}
		}
		page["approvals"] = kept
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(value) // the browser may have left
}

func (f *fake) approval(w http.ResponseWriter, id string) {
	var page struct{ Approvals []map[string]any }
	_ = json.Unmarshal(f.answers["/v1/approvals"], &page) // it is part of a document that was read
	for _, a := range page.Approvals {
		if a["id"] == id {
			f.write(w, f.fill("", a), "")
			return
		}
	}
	http.NotFound(w, nil)
}

// feed is live, and nothing happens.
func (f *fake) feed(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	_, _ = fmt.Fprint(w, ":\n\n")
	_ = http.NewResponseController(w).Flush()
	select {
	case <-r.Context().Done():
	case <-f.leaving:
	}
}

// fill replaces times, and strings by those of change.
func (f *fake) fill(field string, value any) any {
	switch v := value.(type) {
	case map[string]any:
		for k := range v {
			v[k] = f.fill(k, v[k])
		}
	case []any:
		for i := range v {
			v[i] = f.fill(field, v[i])
		}
	case string:
		if d, err := time.ParseDuration(strings.TrimPrefix(v, "@")); err == nil && strings.HasPrefix(v, "@") {
			at := time.Now().Add(d).UTC()
			if field == "date" {
				return at.Format(time.DateOnly)
			}
			return at.Format(time.RFC3339Nano)
		}
		if f.change != nil {
			return f.change(field, v)
		}
	}
	return value
}
