package http1

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/capgate/capgate/internal/testkit/check"
)

// TestOthersAreHandedOver: an unusual request is handed over with all that follows it, after the responses to those
// before it.
func TestOthersAreHandedOver(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, socket bool) {
		r := serve(t, socket, echo)
		other := "GET / HTTP/1.0\r\n\r\n" + get
		c := r.dial(t)
		c.send(post("1"))
		c.want("1")
		c.send(post("2") + post("3") + other)
		c.want("2")
		c.want("3")
		if got := check.Received(t, r.given, "the connection"); got != other {
			t.Errorf("%q", got)
		}
		c.wantEnd()
	})
}

// TestHalfHeadsAreHandedOver: no goroutine of the Server waits for the rest of a head.
func TestHalfHeadsAreHandedOver(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, socket bool) {
		r := serve(t, socket, echo)
		c := r.dial(t)
		c.send(get[:10])
		if got := check.Received(t, r.given, "the connection"); got != get[:10] {
			t.Errorf("%q", got)
		}
	})
}

// TestBodies: a body is read to its end, however it is sent, and not beyond it.
func TestBodies(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, socket bool) {
		r := serve(t, socket, echo)
		c := r.dial(t)
		for _, size := range []int{0, 1, 3000, 5000, 64 << 10} {
			body := strings.Repeat("x", size)
			c.send(post(body) + post("next"))
			c.want(body)
			c.want("next")
			whole := post(body)
			split := strings.Index(whole, "\r\n\r\n") + 4
			c.send(whole[:split])
			c.send(whole[split:])
			c.want(body)
		}
	})
}

// TestSlowBodies: nothing but the body is read until it ends, even if it takes longer than watchAfter.
func TestSlowBodies(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, socket bool) {
		began := make(chan struct{})
		r := serve(t, socket, func(w http.ResponseWriter, r *http.Request) {
			began <- struct{}{}
			echo(w, r)
		})
		c := r.dial(t)
		whole := post("a body")
		c.send(whole[:len(whole)-3])
		check.Received(t, began, "the request")
		for _, c := range r.all() {
			if c.watch.start() {
				t.Error("the client is watched")
			}
		}
		c.send(whole[len(whole)-3:])
		c.want("a body")
	})
}

// TestUnreadBodies: the rest of a body that the handler does not read is no request.
func TestUnreadBodies(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, socket bool) {
		r := serve(t, socket, func(w http.ResponseWriter, r *http.Request) {
			switch r.Header.Get("X-Do") {
			case "close":
				_ = r.Body.Close()
				_, err := r.Body.Read(make([]byte, 1))
				if err != http.ErrBodyReadAfterClose { //nolint:errorlint // never wrapped
					t.Errorf("a read after Close: %v", err)
				}
			case "duplex":
				_ = http.NewResponseController(w).EnableFullDuplex()
				_ = http.NewResponseController(w).Flush()
			case "write":
				_, _ = w.Write([]byte("o"))
				_ = http.NewResponseController(w).Flush()
				_, err := io.ReadAll(r.Body)
				if err != http.ErrBodyReadAfterClose { //nolint:errorlint // never wrapped
					t.Errorf("a read after the response has begun: %v", err)
				}
				_, _ = w.Write([]byte("k"))
				return
			case "leave":
				w.Header().Set("Connection", "close")
			}
			_, _ = io.WriteString(w, "ok")
		})
		c := r.dial(t)
		request := func(do string) string {
			return strings.Replace(post(strings.Repeat(get, 500)), "Host", "X-Do: "+do+"\r\nHost", 1)
		}
		for _, do := range []string{"nothing", "close", "write", "duplex"} {
			c.send(request(do) + get)
			c.want("ok")
			c.want("ok")
		}
		c.send(request("leave"))
		if resp := c.want("ok"); !resp.Close {
			t.Error("the connection stays")
		}
		c.wantEnd()
	})
}

// TestDisconnect: the context of a request ends when its client disconnects, also after its body. An early request does
// not end it, and is served next.
func TestDisconnect(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, socket bool) {
		began, ended, proceed := make(chan context.Context, 1), make(chan struct{}), make(chan struct{}, 1)
		r := serve(t, socket, func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(w, r.Body)
			began <- r.Context()
			select {
			case <-proceed:
			case <-r.Context().Done():
				ended <- struct{}{}
			}
		})
		c := r.dial(t)
		for _, body := range []string{"", "a body"} {
			c.send(post(body))
			ctx := check.Received(t, began, "the request")
			r.watched(t)
			c.send(get)
			check.Succeeds(t, "the early request", func() error { return r.watching(false) })
			if ctx.Err() != nil {
				t.Error("an early request ends the context of the request before it")
			}
			proceed <- struct{}{}
			c.want(body)
			if !socket { // net/http reads the rest of its head
				if got := check.Received(t, r.given, "the connection"); got != get[:1] {
					t.Errorf("%q", got)
				}
				c = r.dial(t)
				continue
			}
			check.Received(t, began, "the early request")
			proceed <- struct{}{}
			c.want("")
		}
		for _, body := range []string{"", "a body"} {
			c := r.dial(t)
			c.send(post(body))
			check.Received(t, began, "the request")
			_ = c.Close()
			check.Received(t, ended, "the end of the context")
		}
	})
}

// watched waits until the clients of all requests are watched.
func (r *rig) watched(t *testing.T) {
	check.Succeeds(t, "the watch", func() error { return r.watching(true) })
}

// watching returns an error if a client is watched, or not.
func (r *rig) watching(want bool) error {
	for _, c := range r.all() {
		c.watch.mu.Lock()
		got := c.watch.reading
		c.watch.mu.Unlock()
		if got != want {
			return fmt.Errorf("watched: %t", got)
		}
	}
	return nil
}

// TestShortDisconnect: a client may disconnect before the watch starts, and during a response.
func TestShortDisconnect(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, socket bool) {
		began, proceed, over := make(chan context.Context), make(chan struct{}), make(chan error, 1)
		r := serve(t, socket, func(w http.ResponseWriter, r *http.Request) {
			began <- r.Context()
			<-proceed
			var err error
			for err == nil && r.URL.Path == "/" {
				if _, err = w.Write(make([]byte, 10_000)); err != nil {
					check.Received(t, r.Context().Done(), "the end of the context")
				}
			}
			over <- err
		})
		for _, path := range []string{"/", "/short"} {
			c := r.dial(t)
			c.send(strings.Replace(get, "/", path, 1))
			check.Received(t, began, "the request")
			_ = c.Close()
			proceed <- struct{}{}
			_ = check.Received(t, over, "the end of the handler")
		}
		check.Ended(t, &r.ended, "the connections")
	})
}

// TestPanics: a handler that panics ends its connection, and only what is no http.ErrAbortHandler is recorded.
func TestPanics(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, socket bool) {
		r := serve(t, socket, func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, "lost")
			if r.Method == "POST" {
				panic(http.ErrAbortHandler)
			}
			panic("oops")
		})
		for _, text := range []string{post("x"), get} {
			c := r.dial(t)
			c.send(text)
			c.wantEnd()
		}
		if v := check.Received(t, r.panics, "the panic"); v != "oops" || len(r.panics) > 0 {
			t.Error(v)
		}
	})
}

// TestShutdown: idle connections end, and running requests are finished.
func TestShutdown(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, socket bool) {
		began, proceed := make(chan struct{}, 1), make(chan struct{}, 1)
		r := serve(t, socket, func(w http.ResponseWriter, r *http.Request) {
			if r.Method == "POST" {
				began <- struct{}{}
				<-proceed
			}
			echo(w, r)
		})
		idle, busy, fresh := r.dial(t), r.dial(t), r.dial(t)
		idle.send(get)
		idle.want("")
		busy.send(post("busy"))
		check.Received(t, began, "the request")
		done := make(chan error, 1)
		go func() { done <- r.Shutdown(t.Context()) }()
		idle.wantEnd()
		fresh.send(get)
		if resp := fresh.want(""); !resp.Close {
			t.Error("a new connection stays")
		}
		fresh.wantEnd()
		proceed <- struct{}{}
		if resp := busy.want("busy"); !resp.Close {
			t.Error("the connection stays")
		}
		busy.wantEnd()
		check.Must(t, check.Received(t, done, "the end of Shutdown"))
	})
}

// TestClose: Close ends idle connections and the contexts of requests, and later connections are not served.
func TestClose(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, socket bool) {
		began := make(chan struct{})
		r := serve(t, socket, func(_ http.ResponseWriter, r *http.Request) {
			began <- struct{}{}
			<-r.Context().Done()
		})
		idle, busy := r.dial(t), r.dial(t)
		busy.send(get)
		check.Received(t, began, "the request")
		short, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if err := r.Shutdown(short); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		r.Close()
		idle.wantEnd()
		busy.wantEnd()
		r.dial(t).wantEnd()
	})
}
