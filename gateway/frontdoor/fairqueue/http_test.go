package fairqueue

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/capgate/capgate/internal/testkit/check"
)

// host is the owner of the requests for a host.
type host string

func (h host) Account() (tenant, from string) { return string(h), "" }
func (host) Queued() *Body                    { return new(Body) }

func TestRequestsPass(t *testing.T) {
	t.Parallel()
	q := open(t, 1)
	var ctx context.Context
	h := q.Handler(func(r *http.Request) Owner { return host(r.Host) }, http.NotFoundHandler(),
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
	b := ctx.Value(bodyKey{}).(*Body)
	CallStarted(ctx)
	b.ReadCloser, b.queue = io.NopCloser(strings.NewReader("more")), nil // the queue is no longer used
	if text, err := io.ReadAll(b); string(text) != "more" || err != nil {
		t.Error(text, err)
	}
	CallStarted(t.Context()) // a context without a request
}

// A request does not wait again for what the client has sent with the header, but for more, and after its turn.
func TestBodiesWaitAgain(t *testing.T) {
	t.Parallel()
	q := open(t, 1)
	var reads []bool // whether each waits
	release := q.hold()
	b := &Body{ReadCloser: io.NopCloser(strings.NewReader(strings.Repeat("x", 3*bodyInTurn))), ctx: check.Context(t),
		queue: q, tenant: "a", turn: q.turn.Load(), left: bodyInTurn}
	read := func(n int) {
		ended := make(chan error, 1)
		go func() {
			_, err := b.Read(make([]byte, n))
			ended <- err
		}()
		waits := false
		for {
			select {
			case err := <-ended:
				if err != nil {
					t.Error(err)
				}
				reads = append(reads, waits)
				return
			default:
			}
			q.mu.Lock()
			l := q.tenants["a"]
			q.mu.Unlock()
			if l != nil && !waits {
				waits = true
				release()
			}
			runtime.Gosched()
		}
	}
	read(bodyInTurn - 1)
	read(1)
	read(1) // more than a turn's
	release = q.hold()
	q.turn.Add(1)
	read(1)
	if want := []bool{false, false, true, true}; !slices.Equal(reads, want) {
		t.Errorf("reads that wait: %v, want %v", reads, want)
	}
}

// A request whose client leaves while it waits again reads no more.
func TestBodiesOfWhoLeaves(t *testing.T) {
	t.Parallel()
	q := open(t, 1)
	release := q.hold()
	ctx, leave := context.WithCancel(t.Context())
	leave()
	b := &Body{ReadCloser: io.NopCloser(strings.NewReader("more")), ctx: ctx, queue: q, tenant: "a"}
	if text, err := io.ReadAll(b); !errors.Is(err, context.Canceled) {
		t.Errorf("%q, %v", text, err)
	}
	release()
}

func TestRequestsAreRefused(t *testing.T) {
	t.Parallel()
	q := open(t, 1)
	release := q.hold()
	full := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTooManyRequests) })
	h := q.Handler(func(r *http.Request) Owner { return host(r.Host) }, full,
		http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
	ask := func(ctx context.Context, host string) int {
		w, r := httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil)
		r.Host = host
		h.ServeHTTP(w, r)
		return w.Code
	}
	first := make(chan int)
	go func() { first <- ask(t.Context(), "a") }()
	q.waitFor(t, 1)
	if got := ask(t.Context(), "a"); got != http.StatusTooManyRequests {
		t.Errorf("a request beyond the limit got %d", got)
	}
	gone, leave := context.WithCancel(t.Context())
	leave()
	if got := ask(gone, "b"); got != http.StatusOK {
		t.Errorf("a canceled request got %d", got) // a recorder without a response says 200
	}
	release()
	if got := check.Received(t, first, "the status of the first request"); got != http.StatusNoContent {
		t.Errorf("who waited is told %d", got)
	}
}
