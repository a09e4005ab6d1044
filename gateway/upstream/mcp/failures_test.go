package mcp_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/capgate/capgate/gateway/upstream"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
)

// TestReplacedCredential: a new credential has an effect without a restart.
func TestReplacedCredential(t *testing.T) {
	t.Parallel()
	for era, old := range eras {
		t.Run(era, func(t *testing.T) {
			t.Parallel()
			r := newRemote(t, old)
			var fleet upstream.Fleet
			w := start(t, func(f *upstream.Fleet, _ *gatewaytest.Fleet) {
				f.Headers = map[string]string{"authorization": "Bearer old"}
				fleet = *f
			}, r.URL)
			w.wantResult(t, request("echo", `{"text":"x"}`), `"x"`)
			fleet.Headers = map[string]string{"authorization": "Bearer new"}
			w.servers.Set([]upstream.Fleet{fleet})
			w.wantResult(t, request("echo", `{"text":"x"}`), `"x"`)
			r.mu.Lock()
			defer r.mu.Unlock()
			if got := r.headers.Values("Authorization"); len(got) != 1 || got[0] != "Bearer new" {
				t.Errorf("the server saw the credential %q", got)
			}
		})
	}
}

// TestFleetReplacedDuringACall: a call that runs at a server that is no more goes on, and its session ends after it.
func TestFleetReplacedDuringACall(t *testing.T) {
	t.Parallel()
	r := newRemote(t, true)
	var running, early atomic.Bool
	behind := *r.handler.Load()
	served := http.Handler(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if q.Method == http.MethodDelete && running.Load() {
			early.Store(true)
		}
		behind.ServeHTTP(w, q)
	}))
	r.handler.Store(&served)
	w, ctx := start(t, nil, r.URL), within(t)
	ended := make(chan error, 1)
	go func() {
		_, err := w.Invoke(ctx, request("wait", `{}`))
		ended <- err
	}()
	check.Received(t, r.began, "the start of the call at the server")
	running.Store(true)
	w.servers.Set(nil)
	for range 10 { // while the session could be ended
		if _, err := w.Invoke(within(t), request("echo", `{}`)); status.Code(err) != codes.Unavailable {
			t.Errorf("another call: %v", err)
		}
	}
	running.Store(false)
	r.free()
	if err := check.Received(t, ended, "the end of the call"); err != nil || early.Load() {
		t.Errorf("the call: %v; its session was ended before: %t", err, early.Load())
	}
}

// TestLostConnection: a call whose connection breaks before an answer may have run, and is not made at another server.
func TestLostConnection(t *testing.T) {
	t.Parallel()
	for era, old := range eras {
		t.Run(era, func(t *testing.T) {
			t.Parallel()
			var calls atomic.Int32
			var urls []string
			for range 2 {
				r := newRemote(t, old)
				r.hostile("tools/call", "", func(http.ResponseWriter, *http.Request, string) {
					calls.Add(1)
					panic(http.ErrAbortHandler)
				})
				urls = append(urls, r.URL)
			}
			w := start(t, nil, urls...)
			_, err := w.Invoke(within(t), request("echo", `{"text":"x"}`))
			if n := calls.Load(); status.Code(err) != codes.Unavailable || n != 1 {
				t.Errorf("%v after %d calls", err, n)
			}
		})
	}
}

// TestServerThatForgetsEachSession: a call is made twice at most.
func TestServerThatForgetsEachSession(t *testing.T) {
	t.Parallel()
	r := newRemote(t, true)
	var calls atomic.Int32
	r.hostile("tools/call", "", func(w http.ResponseWriter, q *http.Request, id string) {
		code := http.StatusNotFound
		if calls.Add(1) > 2 {
			code = http.StatusTeapot // it would go on
		}
		says(code, "application/json", "")(w, q, id)
	})
	w := start(t, nil, r.URL)
	_, err := w.Invoke(within(t), request("echo", `{"text":"x"}`))
	if n := calls.Load(); status.Code(err) != codes.Unavailable || n != 2 {
		t.Errorf("%v after %d calls", err, n)
	}
}

// TestLargestMessage: a message, and an event with its lines, may have as many bytes as the limit says, and no more.
func TestLargestMessage(t *testing.T) {
	t.Parallel()
	r := newRemote(t, false)
	var size atomic.Int64
	var kind, before, after string // of the body
	r.hostile("tools/call", "", func(w http.ResponseWriter, q *http.Request, id string) {
		head := before + `{"jsonrpc":"2.0","id":` + id + `,"result":{"content":[{"type":"text","text":"`
		tail := `"}]}}` + after
		w.Header().Set("Content-Type", kind)
		_, _ = io.WriteString(w, head+strings.Repeat("x", int(size.Load())-len(head)-len(tail))+tail)
	})
	w := start(t, func(f *upstream.Fleet, _ *gatewaytest.Fleet) { settings(f).MaxMessage = maxMessage }, r.URL)
	for _, body := range [][3]string{{"application/json"}, {"text/event-stream", "data: ", "\n\n"}} {
		kind, before, after = body[0], body[1], body[2]
		for n, want := range map[int64]codes.Code{maxMessage: codes.OK, maxMessage + 1: codes.Internal} {
			size.Store(n)
			_, err := w.Invoke(within(t), request("echo", `{}`))
			if status.Code(err) != want || err != nil && !strings.Contains(err.Error(),
				fmt.Sprint("larger than ", maxMessage)) {
				t.Errorf("%s of %d bytes: %v", kind, n, err)
			}
		}
	}
}
