package kubetest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/capgate/capgate/internal/testkit/check"
)

// Recording is the sequence of responses that an API server sent to a client.
type Recording struct {
	Version   string     `json:"version"` // of the API server
	Exchanges []Exchange `json:"exchanges"`
}

// Exchange is a request and the response to it.
type Exchange struct {
	Path       string   `json:"path"`
	Query      string   `json:"query"` // the parameters that determine the response
	Code       int      `json:"code"`
	Type       string   `json:"type"` // Content-Type
	RetryAfter string   `json:"retry_after,omitempty"`
	Lines      []string `json:"lines"` // of the body: one line, or one per event
	Open       bool     `json:"open,omitempty"`
}

// Decisive returns the parameters of a request that determine its response, without its duration.
func Decisive(query url.Values) string {
	kept := url.Values{}
	for name, values := range query {
		if name != "timeoutSeconds" {
			kept[name] = values
		}
	}
	return kept.Encode()
}

// Read reads a Recording from a file.
func Read(t testing.TB, file string) *Recording {
	t.Helper()
	text, err := os.ReadFile(file)
	check.Must(t, err)
	r := &Recording{}
	check.Must(t, json.Unmarshal(text, r))
	return r
}

// Player is a server that replays the responses of a Recording.
type Player struct {
	URL string

	recording *Recording
	mu        sync.Mutex
	next      int
	wrong     []string
	ended     chan struct{}
}

// Replay runs a Player until the test ends. Requests must be those of the recording, in its order.
func Replay(t testing.TB, r *Recording) *Player {
	t.Helper()
	p := &Player{recording: r, ended: make(chan struct{})}
	server := httptest.NewServer(p)
	p.URL = server.URL
	check.Cleanup(t, func() {
		server.CloseClientConnections()
		server.Close()
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, text := range p.wrong {
			t.Error(text)
		}
	})
	return p
}

// Ended is closed when the last response has been sent.
func (p *Player) Ended() <-chan struct{} { return p.ended }

// take returns the response to a request, or nil if the recording has none.
func (p *Player) take(r *http.Request) *Exchange {
	p.mu.Lock()
	defer p.mu.Unlock()
	query := Decisive(r.URL.Query())
	if p.next == len(p.recording.Exchanges) {
		return nil
	}
	if e := &p.recording.Exchanges[p.next]; e.Path == r.URL.Path && e.Query == query {
		p.next++
		return e
	}
	e := p.recording.Exchanges[p.next]
	p.wrong = append(p.wrong, fmt.Sprintf("request %d is %s?%s, and the recorded one %s?%s", p.next, r.URL.Path, query,
		e.Path, e.Query))
	p.wrong = p.wrong[:min(len(p.wrong), 5)]
	return nil
}

// ServeHTTP implements http.Handler.
func (p *Player) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e := p.take(r)
	if e == nil {
		<-r.Context().Done() // there are no further responses for the client
		return
	}
	w.Header().Set("Content-Type", e.Type)
	if e.RetryAfter != "" {
		w.Header().Set("Retry-After", e.RetryAfter)
	}
	w.WriteHeader(e.Code)
	for _, line := range e.Lines {
		_, _ = fmt.Fprintln(w, line) // the client may be gone
		_ = http.NewResponseController(w).Flush()
	}
	p.mu.Lock()
	last := p.next == len(p.recording.Exchanges)
	if last {
		select {
		case <-p.ended:
		default:
			close(p.ended)
		}
	}
	p.mu.Unlock()
	if e.Open {
		<-r.Context().Done()
	}
}

// Has reports whether a line of a response with a code contains all texts.
func (r *Recording) Has(code int, texts ...string) bool {
	return slices.ContainsFunc(r.Exchanges, func(e Exchange) bool {
		return e.Code == code && slices.ContainsFunc(e.Lines, func(line string) bool {
			return !slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(line, text) })
		})
	})
}

// Complete returns an error if the recording lacks a form of response that a client must understand.
func (r *Recording) Complete() error {
	for what, has := range map[string]bool{
		"an addition": r.Has(http.StatusOK, `"type":"ADDED"`),
		"a change":    r.Has(http.StatusOK, `"type":"MODIFIED"`),
		"a deletion":  r.Has(http.StatusOK, `"type":"DELETED"`),
		"a bookmark":  r.Has(http.StatusOK, `"type":"BOOKMARK"`),
		"a watch from a version that has expired": r.Has(http.StatusOK, `"type":"ERROR"`, `"code":410`),
		"a page of several":                       r.Has(http.StatusOK, `"continue":"`, `"items":[`),
		"a page that has expired":                 r.Has(http.StatusGone, `"reason":"Expired"`),
		"an unknown token":                        r.Has(http.StatusUnauthorized, `"reason":"Unauthorized"`),
		"a role without the verb":                 r.Has(http.StatusForbidden, `"reason":"Forbidden"`),
	} {
		if !has {
			return fmt.Errorf("the recording has no response with %s", what)
		}
	}
	return nil
}
