package relay_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/rawhttp2"
)

// TestWebBodyWaits: a client sends at most its window before the handler reads.
func TestWebBodyWaits(t *testing.T) {
	t.Parallel()
	w := newWebRelay(t, relay.Config{})
	const size = 3 << 20
	read := make(chan struct{})
	reads := sync.OnceFunc(func() { close(read) })
	check.Cleanup(t, reads)
	w.handlers <- func(rw http.ResponseWriter, r *http.Request) {
		<-read
		got, err := io.ReadAll(r.Body)
		if err != nil || !bytes.Equal(got, pattern(5, size)) {
			t.Errorf("%d bytes, %v", len(got), err)
		}
		write(rw, "done")
	}
	var sent atomic.Int64
	body := &countingReader{Reader: bytes.NewReader(pattern(5, size)), n: &sent}
	answer := make(chan error, 1)
	go func() {
		resp, err := w.client.Post("http://"+w.addr, "text/plain", body)
		if err == nil {
			err = resp.Body.Close()
		}
		answer <- err
	}()
	const windows = 2 * 65535 // the handler's, and that of the bytes that wait for it
	check.Succeeds(t, "the windows to be full", func() error {
		if n := w.Usage().Buffers; n < windows || sent.Load() < windows {
			return fmt.Errorf("%d bytes are held", n)
		}
		return nil
	})

	if n := sent.Load(); n > windows+(1<<20) || w.held.most.Load() > windows*2+(128<<10) {
		t.Errorf("%d bytes were sent, and %d charged", n, w.held.most.Load())
	}
	reads()
	check.Must(t, check.Received(t, answer, "the answer"))
	w.atRest(1)
}

type countingReader struct {
	io.Reader
	n *atomic.Int64
}

func (r *countingReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	r.n.Add(int64(n))
	return n, err
}

// TestWebClientLeaves: a handler learns that its client has left, in whatever call it is.
func TestWebClientLeaves(t *testing.T) {
	t.Parallel()
	leave := map[string]func(*rawhttp2.Conn) error{
		"reset":  func(c *rawhttp2.Conn) error { return c.Write(rawhttp2.Reset(1, rawhttp2.Cancel)) },
		"closed": func(c *rawhttp2.Conn) error { return c.Close() },
		"beyond its length": func(c *rawhttp2.Conn) error {
			return c.Write(rawhttp2.Data(1, false, make([]byte, 100)))
		},
		"short of its length": func(c *rawhttp2.Conn) error { return c.Write(rawhttp2.Data(1, true, nil)) },
		"a bad trailer": func(c *rawhttp2.Conn) error {
			return c.Write(rawhttp2.Headers(1, true, c.Block("content-type", "text/plain")))
		},
	}
	for how, leave := range leave {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			w := newWebRelay(t, relay.Config{})
			begun := make(chan struct{}, 1)
			end := func(r *http.Request) {
				if <-r.Context().Done(); !errors.Is(r.Context().Err(), context.Canceled) {
					t.Error(r.Context().Err())
				}
			}
			for name, h := range map[string]http.HandlerFunc{
				"reads": func(_ http.ResponseWriter, r *http.Request) {
					buf := make([]byte, 10)
					if n, err := io.ReadFull(r.Body, buf[:3]); err != nil {
						t.Error(n, err)
					}
					begun <- struct{}{}
					if n, err := r.Body.Read(buf); n != 0 || err == nil || err == io.EOF {
						t.Error(n, err)
					}
					end(r)
				},
				"writes": func(rw http.ResponseWriter, r *http.Request) {
					var err error
					for n := 0; err == nil; n++ {
						if n == 1 {
							begun <- struct{}{}
						}
						_, err = rw.Write(make([]byte, 60_000))
					}
					end(r)
					if _, err := rw.Write([]byte("x")); err == nil {
						_, err = rw.Write(make([]byte, 10_000))
						if err == nil || http.NewResponseController(rw).Flush() == nil {
							t.Errorf("it can be written to; err %+v", err)
						}
					}
				},
				"waits": func(rw http.ResponseWriter, r *http.Request) {
					begun <- struct{}{}
					end(r)
					write(rw, "who reads this?")
				},
			} {
				w.handlers <- h
				more := []string{"content-length", "10"}
				if how == "a bad trailer" {
					more = nil
				}
				c := w.raw("POST", false, more...)
				check.Must(t, c.Write(rawhttp2.Data(1, false, []byte("abc"))))
				check.Received(t, begun, "the start")
				if name == "writes" && how == "short of its length" {
					check.Must(t, c.Close()) // the client already has the response
				} else {
					check.Must(t, leave(c))
				}
				w.atRest(1)
			}
		})
	}
}

// TestWebTrailers: trailers of requests and responses pass, announced or not.
func TestWebTrailers(t *testing.T) {
	t.Parallel()
	w := newWebRelay(t, relay.Config{})
	for _, announced := range []bool{true, false} {
		w.handlers <- func(rw http.ResponseWriter, r *http.Request) {
			outer := r.WithContext(context.WithValue(r.Context(), w, 1)) // a copy, as middleware makes
			_, announced := r.Trailer["X-Sum"]
			_, err := io.Copy(rw, outer.Body)
			rw.Header().Set(http.TrailerPrefix+"X-Back", fmt.Sprint(announced, err, r.Trailer, outer.Trailer))
		}
		c := rawClient(t, w.addr)
		fields := []string{":method", "POST", ":scheme", "http", ":authority", "localhost", ":path", "/"}
		if announced {
			fields = append(fields, "trailer", "x-sum")
		}
		check.Must(t, c.Write(rawhttp2.Headers(1, false, c.Block(fields...)), rawhttp2.Data(1, false, []byte("abc")),
			rawhttp2.Headers(1, true, c.Block("x-sum", "1", "x-sum", "2"))))
		r, err := c.WaitResponse(1)
		want := fmt.Sprint(announced, " <nil> map[X-Sum:[1 2]] map[X-Sum:[1 2]]")
		if err != nil || r.Trailer["x-back"] != want || string(r.Body) != "abc" {
			t.Errorf("%v: %v, %v %v", announced, err, r, r.Trailer)
		}
		check.Must(t, c.Close())
	}
	w.atRest(2)
}

// TestWebContinue: a client that expects 100-continue gets it when the handler reads the body, and not otherwise.
func TestWebContinue(t *testing.T) {
	t.Parallel()
	w := newWebRelay(t, relay.Config{})
	w.handlers <- func(rw http.ResponseWriter, r *http.Request) {
		if len(r.Header["Expect"]) > 0 {
			t.Error(r.Header)
		}
		_, _ = io.Copy(rw, r.Body)
	}
	c := w.raw("POST", false, "expect", "100-Continue", "content-length", "4")
	f, err := c.Wait(func(f rawhttp2.Frame) bool { return f.Type == rawhttp2.TypeHeaders })
	check.Must(t, err)
	if fields, err := c.Fields(f.Payload); err != nil || len(fields) != 1 || fields[":status"] != "100" {
		t.Errorf("%v, %v", fields, err)
	}
	check.Must(t, c.Write(rawhttp2.Data(1, true, []byte("body"))))
	if r, err := c.WaitResponse(1); err != nil || r.Header[":status"] != "200" || string(r.Body) != "body" {
		t.Errorf("%v, %v", err, r)
	}
	check.Must(t, c.Close())
	w.handlers <- func(rw http.ResponseWriter, r *http.Request) {
		rw.WriteHeader(http.StatusExpectationFailed)
		_ = http.NewResponseController(rw).Flush()
		_, _ = r.Body.Read(make([]byte, 1))
	}
	c = w.raw("POST", false, "expect", "100-continue", "content-length", "4")
	f, err = c.Wait(func(f rawhttp2.Frame) bool { return f.Type == rawhttp2.TypeHeaders })
	check.Must(t, err)
	if fields, err := c.Fields(f.Payload); err != nil || fields[":status"] != "417" {
		t.Errorf("%v, %v", fields, err)
	}
	check.Must(t, c.Write(rawhttp2.Data(1, true, []byte("body"))))
	check.Must(t, func() error { _, err := c.WaitResponse(1); return err }())
	check.Must(t, c.Close())
	w.atRest(2)
}
