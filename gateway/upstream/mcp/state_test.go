package mcp_test

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/capgate/capgate/gateway/upstream"
	"github.com/capgate/capgate/health"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
)

// probedOften is a fleet whose servers are probed all the time. A busy machine is slower, but not silent.
func probedOften(_ *upstream.Fleet, f *gatewaytest.Fleet) {
	f.Health = health.Config{Interval: 500 * time.Millisecond, Timeout: 5 * time.Second, Fall: 1}
}

// abort ends the connection of a request.
func abort(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

// answerWith answers every request with a status and a text.
func answerWith(status int, kind, text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		w.WriteHeader(status)
		_, _ = fmt.Fprint(w, text)
	}
}

// TestStateOfServers: a server that was up is down while it answers a probe with anything but a message of the
// protocol, or not at all, and up again afterwards.
func TestStateOfServers(t *testing.T) {
	t.Parallel()
	const page = "<html><body>a page</body></html>"
	faults := map[string]http.HandlerFunc{
		"connection reset": abort,
		"no answer":        func(_ http.ResponseWriter, q *http.Request) { <-q.Context().Done() },
		"401":              answerWith(401, "text/plain", "no"),
		"403":              answerWith(403, "application/json", `{"error":"no"}`),
		"404":              answerWith(404, "text/html", page),
		"500":              answerWith(500, "text/html", page),
		"503": answerWith(503, "application/json",
			`{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"no"}}`),
		"a redirect": func(w http.ResponseWriter, q *http.Request) {
			http.Redirect(w, q, "/elsewhere", http.StatusFound)
		},
		"a page": answerWith(200, "text/html", page),
		"half an answer": func(w http.ResponseWriter, q *http.Request) {
			w.Header().Set("Content-Length", "1000")
			answerWith(200, "application/json", `{"jsonrpc":"2.0","id":`)(w, q)
		},
	}
	for era, old := range eras {
		t.Run(era, func(t *testing.T) {
			t.Parallel()
			var urls, names []string
			var remotes []*remote
			for name := range faults {
				r := newRemote(t, old)
				remotes, urls, names = append(remotes, r), append(urls, r.URL), append(names, name)
			}
			w := start(t, probedOften, urls...)
			becomes := func(up bool) {
				w.gateway.WaitHealth(t, id, func(s *health.Snapshot) bool {
					return !slices.ContainsFunc(s.Backends, func(b health.Backend) bool {
						return (b.State == health.Up) != up
					})
				})
			}
			becomes(true)
			good := make([]*http.Handler, len(remotes))
			for i, r := range remotes {
				fault := http.Handler(faults[names[i]])
				good[i] = r.handler.Swap(&fault)
			}
			becomes(false)
			for i, r := range remotes {
				r.handler.Store(good[i])
			}
			becomes(true)
		})
	}
}

// TestStateOfAStoppedServer: a server whose process ends is down, and the stream of its notices does not keep it.
func TestStateOfAStoppedServer(t *testing.T) {
	t.Parallel()
	for era, old := range eras {
		t.Run(era, func(t *testing.T) {
			t.Parallel()
			r := newRemote(t, old)
			w := start(t, probedOften, r.URL)
			w.gateway.WaitHealth(t, id, func(s *health.Snapshot) bool {
				return len(s.Backends) == 1 && s.Backends[0].State == health.Up
			})
			ctx := within(t)
			check.Must(t, r.Config.Shutdown(ctx)) // waits for streams, as a server does that got SIGTERM
			w.gateway.WaitHealth(t, id, func(s *health.Snapshot) bool {
				return len(s.Backends) == 1 && s.Backends[0].State != health.Up
			})
		})
	}
}
