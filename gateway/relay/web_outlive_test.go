package relay_test

import (
	"bytes"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/rawhttp2"
)

// outlived is a response whose handler has returned.
type outlived struct {
	http.ResponseWriter
	end   func()
	abort func() // ends an incomplete response
	gone  chan struct{}
}

// outlive makes a request whose response outlives its handler, and returns both. header has names and values in turn.
func (w *webRelay) outlive(header ...string) (*rawhttp2.Conn, *outlived) {
	w.t.Helper()
	all := make(chan *outlived, 1)
	w.handlers <- func(rw http.ResponseWriter, r *http.Request) {
		o := &outlived{ResponseWriter: rw, gone: make(chan struct{})}
		rw.Header().Set("X-Sent", "1")
		_, _ = io.WriteString(rw, "begun ")
		check.Must(w.t, http.NewResponseController(rw).Flush())
		end := relay.Outlive(r.Context(), func() { close(o.gone) })
		if left := rw.Header(); len(left) > 0 {
			w.t.Errorf("a response that has begun holds the header %v", left)
		}
		var once sync.Once
		o.end = func() { once.Do(func() { end(nil) }) }
		o.abort = func() { once.Do(func() { end(http.ErrAbortHandler) }) }
		all <- o
	}
	c := w.raw("GET", true, header...)
	o := check.Received(w.t, all, "the handler")
	check.Received(w.t, w.left, "the end of the handler")
	check.Cleanup(w.t, o.end) // otherwise the relay would not close after a failure
	return c, o
}

// TestOutlive: a response may outlive its handler. It then costs less.
func TestOutlive(t *testing.T) {
	t.Parallel()
	w := newWebRelay(t, relay.Config{})
	begun, proceed := make(chan struct{}), make(chan struct{})
	w.handlers <- func(rw http.ResponseWriter, _ *http.Request) {
		write(rw, "usual")
		check.Must(t, http.NewResponseController(rw).Flush())
		begun <- struct{}{}
		<-proceed
	}
	usual := w.raw("GET", true)
	check.Received(t, begun, "the usual response")
	cost := w.held.held.Load()
	close(proceed)
	_, err := usual.WaitResponse(1)
	check.Must(t, err)
	check.Must(t, usual.Close())
	w.atRest(1)

	c, o := w.outlive()
	check.Holds(t, "the lower cost", func() bool { return w.held.held.Load() <= cost-12<<10 })
	for range 2 {
		_, err := io.WriteString(o, "more ")
		check.Must(t, err)
		check.Must(t, http.NewResponseController(o.ResponseWriter).Flush())
	}
	select {
	case <-o.gone:
		t.Error("the stream has ended")
	default:
	}
	o.end()
	r, err := c.WaitResponse(1)
	if err != nil || string(r.Body) != "begun more more " {
		t.Errorf("%v, %v", err, r)
	}
	if _, err := io.WriteString(o, "late"); err == nil {
		t.Error("the response can be written after its end")
	}
	check.Must(t, c.Close())
	w.atRest(0)
}

// TestOutliveCharges: a response that has outlived its handler is charged for the headers of its request, which it
// holds. The charge does not rise when it ends.
func TestOutliveCharges(t *testing.T) {
	t.Parallel()
	w := newWebRelay(t, relay.Config{})
	const size, chunk = 48 << 10, 4 << 10
	var header []string
	for i := range size / chunk {
		header = append(header, "x-"+strconv.Itoa(i), strings.Repeat("x", chunk))
	}
	var cost [2]int64
	for i, header := range [][]string{nil, header} {
		c, o := w.outlive(header...)
		for range 2 { // when the client gets the second, the response has long outlived its handler
			_, err := io.WriteString(o, "more.")
			check.Must(t, err)
			check.Must(t, http.NewResponseController(o.ResponseWriter).Flush())
			_, err = c.Wait(func(f rawhttp2.Frame) bool {
				return f.Type == rawhttp2.TypeData && bytes.HasSuffix(f.Payload, []byte("."))
			})
			check.Must(t, err)
		}
		cost[i] = w.held.held.Load()
		w.held.most.Store(cost[i])
		o.end()
		_, err := c.WaitResponse(1)
		check.Must(t, err)
		if most := w.held.most.Load(); most > cost[i] {
			t.Errorf("with %d headers: %d bytes were charged, and %d at the end", len(header)/2, cost[i], most)
		}
		check.Must(t, c.Close())
		w.atRest(0)
	}
	if more := cost[1] - cost[0]; more < size*3/4 {
		t.Errorf("headers of %d bytes cost %d", size, more)
	}
}

// TestOutliveGone: what writes a response that outlives its handler is notified when the client disconnects, and when
// the relay is closed, which waits for the end of the response.
func TestOutliveGone(t *testing.T) {
	t.Parallel()
	w := newWebRelay(t, relay.Config{})
	c, o := w.outlive()
	check.Must(t, c.Write(rawhttp2.Reset(1, rawhttp2.Cancel)))
	check.Received(t, o.gone, "the disconnection")
	o.end()
	w.atRest(0)

	_, o = w.outlive()
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		w.Close()
	}()
	check.Received(t, o.gone, "the end of the relay")
	select {
	case <-closed:
		t.Error("it did not wait for the end of the response")
	default:
	}
	o.end()
	check.Received(t, closed, "the end of the response")
}

// TestOutliveAborts: a response that has outlived its handler can end incomplete, which its client sees.
func TestOutliveAborts(t *testing.T) {
	t.Parallel()
	w := newWebRelay(t, relay.Config{})
	c, o := w.outlive()
	o.abort()
	if r, err := c.WaitResponse(1); err != nil || !r.Reset {
		t.Errorf("%v, %v", err, r)
	}
	check.Must(t, c.Close())
	w.atRest(0)
}

// TestOutliveShutdown: a relay that stops waits for responses that outlive their handlers.
func TestOutliveShutdown(t *testing.T) {
	t.Parallel()
	w := newWebRelay(t, relay.Config{})
	c, o := w.outlive()
	down := make(chan error, 1)
	go func() { down <- w.Shutdown(t.Context()) }()
	_, err := c.Wait(func(f rawhttp2.Frame) bool { return f.Type == rawhttp2.TypeGoAway })
	check.Must(t, err)
	select {
	case err := <-down:
		t.Errorf("it did not wait: %v", err)
	default:
	}
	o.end()
	_, err = c.Wait(func(f rawhttp2.Frame) bool { return f.Type == rawhttp2.TypeData && f.Has(rawhttp2.EndStream) })
	check.Must(t, err)
	check.Must(t, c.Close())
	check.Must(t, check.Received(t, down, "the shutdown"))
}

// TestOutliveHTTP1: net/http's server has no such responses.
func TestOutliveHTTP1(t *testing.T) {
	t.Parallel()
	w := newWebRelay(t, relay.Config{})
	w.handlers <- func(_ http.ResponseWriter, r *http.Request) {
		if relay.Outlive(r.Context(), nil) != nil {
			t.Error("the response outlives its handler")
		}
	}
	resp, err := webClients(t, nil)["HTTP/1.1"].Get("http://" + w.addr)
	check.Must(t, err)
	check.Must(t, resp.Body.Close())
}
