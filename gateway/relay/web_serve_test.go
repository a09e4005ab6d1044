package relay_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/rawhttp2"
)

// webRelay is a relay whose http.Handler runs the handlers that a test sends, one for each request.
type webRelay struct {
	*relay.Relay
	t        *testing.T
	addr     string
	client   *http.Client
	handlers chan http.HandlerFunc
	left     chan struct{} // receives when a handler has returned
	told     panics
	held     *budget
}

func newWebRelay(t *testing.T, cfg relay.Config) *webRelay {
	w := &webRelay{t: t, handlers: make(chan http.HandlerFunc, 10), left: make(chan struct{}, 10)}
	w.held = &budget{limit: 1 << 40}
	cfg.Panicked = w.told.told
	cfg.Memory.Client = func(p *relay.Peer) relay.Account {
		if p == nil {
			return nil
		}
		return w.held
	}
	w.Relay, w.addr = serveRelay(t, cfg, &forwarder{}, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		defer func() { w.left <- struct{}{} }()
		(<-w.handlers)(rw, r)
	}))
	w.client = webClients(t, nil)["HTTP/2.0"]
	return w
}

// raw returns a client that sends the beginning of a request.
func (w *webRelay) raw(method string, end bool, more ...string) *rawhttp2.Conn {
	c := rawClient(w.t, w.addr)
	fields := append([]string{":method", method, ":scheme", "http", ":authority", "localhost", ":path", "/"}, more...)
	parts := slices.Collect(slices.Chunk(c.Block(fields...), 16<<10))
	frames := []rawhttp2.Frame{rawhttp2.Headers(1, end, parts[0])}
	if more := parts[1:]; len(more) > 0 {
		frames[0].Flags &^= rawhttp2.EndHeaders
		for i, part := range more {
			frames = append(frames, rawhttp2.Continuation(1, i == len(more)-1, part))
		}
	}
	check.Must(w.t, c.Write(frames...))
	return c
}

// atRest waits until handlers have returned and the relay holds nothing for requests.
func (w *webRelay) atRest(handlers int) {
	w.t.Helper()
	for range handlers {
		check.Received(w.t, w.left, "the end of a handler")
	}
	check.Succeeds(w.t, "the streams and their memory to end", func() error {
		w.client.CloseIdleConnections()
		if u := w.Usage(); u.Streams > 0 {
			return fmt.Errorf("%+v", u)
		}
		if n := w.held.held.Load(); n > 0 {
			return fmt.Errorf("%d bytes are charged", n)
		}
		return nil
	})

}

// TestWebBroken: an incomplete response ends with a reset. A panic is reported, except http.ErrAbortHandler.
func TestWebBroken(t *testing.T) {
	t.Parallel()
	w := newWebRelay(t, relay.Config{})
	for name, h := range map[string]http.HandlerFunc{
		"panic":        func(http.ResponseWriter, *http.Request) { panic("boom") },
		"panic, begun": func(rw http.ResponseWriter, _ *http.Request) { rw.(http.Flusher).Flush(); panic("boom") },
		"abort":        func(rw http.ResponseWriter, _ *http.Request) { write(rw, "x"); panic(http.ErrAbortHandler) },
		"abort, begun": func(rw http.ResponseWriter, _ *http.Request) {
			rw.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		},
		"too short": func(rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("Content-Length", "5")
			write(rw, "x")
		},
		"too late": func(rw http.ResponseWriter, _ *http.Request) {
			if err := http.NewResponseController(rw).SetWriteDeadline(time.Unix(1, 0)); err != nil {
				t.Error(err)
			}
			if _, err := rw.Write(make([]byte, 10_000)); !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Error(err)
			}
		},
	} {
		w.handlers <- h
		c := w.raw("GET", true)
		if r, err := c.WaitResponse(1); err != nil || !r.Reset || r.Code != rawhttp2.InternalError {
			t.Errorf("%s: %v, %v", name, err, r)
		}
		if strings.HasPrefix(name, "panic") {
			w.told.want(t, "relay serve")
		}
		check.Must(t, c.Close())
		w.atRest(1)
	}
	w.handlers <- func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Length", "5")
		if _, err := rw.Write([]byte("too much")); !errors.Is(err, http.ErrContentLength) {
			t.Error(err)
		}
		write(rw, "x")
	}
	c := w.raw("GET", true)
	if r, err := c.WaitResponse(1); err != nil || r.Header[":status"] != "503" {
		t.Errorf("too long: %v, %v", err, r)
	}
	check.Must(t, c.Close())
	w.atRest(1)
	if w.told.mu.Lock(); len(w.told.all) > 0 {
		t.Error(w.told.all)
	}
	w.told.mu.Unlock()
}

// TestWebFullDuplex: a handler reads the request while it writes the response.
func TestWebFullDuplex(t *testing.T) {
	t.Parallel()
	w := newWebRelay(t, relay.Config{})
	w.handlers <- func(rw http.ResponseWriter, r *http.Request) {
		control := http.NewResponseController(rw)
		check.Must(t, control.EnableFullDuplex())
		for buf := make([]byte, 100_000); ; {
			n, err := r.Body.Read(buf)
			if err == io.EOF {
				return
			}
			_, werr := rw.Write(buf[:n])
			if werr = errors.Join(err, werr, control.Flush()); werr != nil {
				t.Error(werr)
				return
			}
		}
	}
	body, feed := io.Pipe()
	resp, err := func() (*http.Response, error) {
		go func() { _, _ = feed.Write([]byte("x")) }()
		return w.client.Post("http://"+w.addr, "text/plain", body)
	}()
	check.Must(t, err)
	var sent sync.WaitGroup
	want := []byte("x")
	for i := range 200 {
		want = append(want, pattern(i, 1+i*100)...)
	}
	sent.Go(func() {
		for rest := want[1:]; len(rest) > 0; {
			n, err := feed.Write(rest[:min(len(rest), 7000)])
			if err != nil {
				t.Error(err)
				break
			}
			rest = rest[n:]
		}
		_ = feed.Close()
	})
	got, err := io.ReadAll(resp.Body)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("%d bytes of %d, %v", len(got), len(want), err)
	}
	sent.Wait()
	_ = resp.Body.Close()
	w.atRest(1)
}

// TestWebDeadlines: read and write deadlines end a handler's wait for a client that neither sends nor reads, even if
// they are set during the wait.
func TestWebDeadlines(t *testing.T) {
	t.Parallel()
	w := newWebRelay(t, relay.Config{})
	for name, set := range map[string]func(func(time.Time) error){
		"before": func(set func(time.Time) error) { _ = set(time.Now().Add(20 * time.Millisecond)) },
		"over":   func(set func(time.Time) error) { _ = set(time.Unix(1, 0)) },
		"later": func(set func(time.Time) error) {
			_ = set(time.Now().Add(time.Hour))
			time.AfterFunc(20*time.Millisecond, func() { _ = set(time.Now().Add(-time.Second)) })
		},
	} {
		w.handlers <- func(rw http.ResponseWriter, r *http.Request) {
			set(http.NewResponseController(rw).SetReadDeadline)
			for range 2 {
				if n, err := r.Body.Read(make([]byte, 10)); n > 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
					t.Errorf("%s: read %d, %v", name, n, err)
				}
			}
			write(rw, "slow")
		}
		c := w.raw("POST", false)
		if r, err := c.WaitResponse(1); err != nil || string(r.Body) != "slow" {
			t.Errorf("%s: %v, %v", name, err, r)
		}
		check.Must(t, c.Close())
		w.handlers <- func(rw http.ResponseWriter, _ *http.Request) {
			set(http.NewResponseController(rw).SetWriteDeadline)
			var err error
			for err == nil {
				_, err = rw.Write(make([]byte, 10_000))
			}
			if !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("%s: write: %v", name, err)
			}
		}
		c = w.raw("GET", true)
		if code, err := c.WaitReset(1); err != nil || code != rawhttp2.InternalError {
			t.Errorf("%s: %d, %v", name, code, err)
		}
		check.Must(t, c.Close())
		w.atRest(2)
	}
}

// TestWebShutdown: Shutdown waits for a handler whose client waits for it, and for one whose client has left.
func TestWebShutdown(t *testing.T) {
	t.Parallel()
	for _, leaves := range []bool{false, true} {
		w := newWebRelay(t, relay.Config{})
		begun, end := make(chan struct{}), make(chan struct{})
		ends := sync.OnceFunc(func() { close(end) })
		check.Cleanup(t, ends)
		var over atomic.Bool
		w.handlers <- func(rw http.ResponseWriter, r *http.Request) {
			close(begun)
			if leaves {
				<-r.Context().Done()
			}
			<-end
			write(rw, "done")
			over.Store(true)
		}
		c := w.raw("GET", true)
		check.Received(t, begun, "the start")
		if leaves {
			check.Must(t, c.Close())
		}
		down := make(chan error, 1)
		go func() { down <- w.Shutdown(t.Context()) }()
		if !leaves {
			_, err := c.Wait(func(f rawhttp2.Frame) bool { return f.Type == rawhttp2.TypeGoAway })
			check.Must(t, err)
		}
		select {
		case err := <-down:
			t.Errorf("it did not wait: %v", err)
		default:
		}
		ends()
		if !leaves {
			if r, err := c.WaitResponse(1); err != nil || string(r.Body) != "done" {
				t.Errorf("%v, %v", err, r)
			}
			check.Must(t, c.Close())
		}
		if err := check.Received(t, down, "the shutdown"); err != nil || !over.Load() {
			t.Errorf("%v, over %v", err, over.Load())
		}
	}
}

// TestWebRequest checks the request that a handler gets.
func TestWebRequest(t *testing.T) {
	t.Parallel()
	serverTLS, clientTLS := tlsConfigs(t)
	type seen struct {
		remote string
		value  any
		secure bool
		server any
	}
	got := make(chan seen, 1)
	cfg := relay.Config{TLS: serverTLS, Web: func(s *relay.Stream) { s.Value = s.Path() }}
	_, addr := serveRelay(t, cfg, &forwarder{}, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		got <- seen{
			r.RemoteAddr, relay.ValueOf(r.Context()), r.TLS != nil && r.TLS.HandshakeComplete,
			r.Context().Value(http.ServerContextKey),
		}
	}))
	for proto, c := range webClients(t, clientTLS) {
		for _, header := range []string{"X-Any", "Pragma"} { // net/http's server has a request with the second one
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+addr+"/a", http.NoBody)
			check.Must(t, err)
			req.Header.Set(header, "x")
			resp, err := c.Do(req)
			check.Must(t, err)
			_ = resp.Body.Close()
			r, second := check.Received(t, got, "the result"), proto == "HTTP/2.0"
			local := strings.HasPrefix(r.remote, "127.0.0.1:")
			if !local || !r.secure || (r.value == "/a") != second || r.server == nil {
				t.Errorf("%s, %s: %+v; local %+v", proto, header, r, local)
			}
		}
	}
}

// ownContext is a Stream.Value that becomes the context of its request.
type ownContext struct{ context.Context }

func (o *ownContext) Within(ctx context.Context) context.Context {
	o.Context = ctx
	return o
}

// TestWebContext: the context that Config.Web sets is that of the request, within the context of its stream.
func TestWebContext(t *testing.T) {
	t.Parallel()
	ended := make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	cfg := relay.Config{Web: func(s *relay.Stream) { s.Value = new(ownContext) }}
	_, addr := serveRelay(t, cfg, &forwarder{}, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if own, ok := r.Context().(*ownContext); !ok || relay.ValueOf(own) != any(own) {
			t.Error("the request has another context")
		}
		cancel()
		<-r.Context().Done()
		ended <- r.Context().Err()
	}))
	cancelRequest(ctx, t, addr, ended)
}

// TestWebManyAtOnce: requests and responses of all sizes share few connections and stay apart.
func TestWebManyAtOnce(t *testing.T) {
	t.Parallel()
	echo := http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) { _, _ = io.Copy(rw, r.Body) })
	_, addr := serveRelay(t, relay.Config{}, &forwarder{}, echo)
	c := webClients(t, nil)["HTTP/2.0"]
	var all sync.WaitGroup
	for i := range 40 {
		all.Go(func() {
			for j, size := range []int{0, 1, 4095, 4096, 4097, 60_000, 65_536, 200_000} {
				want := pattern(i+j, size)
				body := io.MultiReader(bytes.NewReader(want[:size/2]), bytes.NewReader(want[size/2:]))
				resp, err := c.Post("http://"+addr, "text/plain", body)
				if err != nil {
					t.Error(err)
					return
				}
				got, err := io.ReadAll(resp.Body)
				_ = resp.Body.Close()
				if err != nil || !slices.Equal(got, want) {
					t.Errorf("%d bytes of %d, %v", len(got), size, err)
				}
			}
		})
	}
	all.Wait()
}
