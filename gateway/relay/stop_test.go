package relay_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/clienttest"
)

// relayGoroutines returns the stacks of the goroutines that run a relay's code. Tests that use it are not parallel,
// because other relays would show up.
func relayGoroutines() string {
	buf := make([]byte, 16<<20)
	var found []string
	for g := range strings.SplitSeq(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
		if strings.Contains(g, "gateway/relay.") && !strings.Contains(g, "testing.tRunner") {
			found = append(found, g)
		}
	}
	return strings.Join(found, "\n\n")
}

// wantNothingLeft waits until no goroutine of any relay is left.
func wantNothingLeft(t *testing.T) {
	t.Helper()
	check.Succeeds(t, "the goroutines to end", func() error {
		if left := relayGoroutines(); left != "" {
			return errors.New(left)
		}
		return nil
	})

}

// TestShutdownGraceful: Shutdown lets calls finish, and no goroutine remains.
func TestShutdownGraceful(t *testing.T) {
	for _, scheme := range []string{"http", "https", "pipe"} {
		t.Run(scheme, func(t *testing.T) {
			w, c := stopRelayed(t, scheme, relay.Config{})
			s := stream(w.ctx, t, w.cc, "Echo")
			check.Must(t, send(s, []byte("before")))
			_, err := recv(s)
			check.Must(t, err)
			get := make(chan error, 1)
			answer := w.slow(t, c, get)
			down := make(chan error, 1)
			go func() { down <- w.Shutdown(w.ctx) }()
			check.Succeeds(t, "the port to be closed", func() error {
				nc, err := net.Dial("tcp", w.addr)
				if err == nil {
					_ = nc.Close()
					return errors.New("still listening")
				}
				return nil
			})

			check.Must(t, send(s, []byte("during")))
			if got, err := recv(s); err != nil || string(got) != "during" {
				t.Fatalf("%q, %v", got, err)
			}
			close(answer)
			check.Must(t, check.Received(t, get, "the answer"))
			check.Must(t, s.CloseSend())
			wantEOF(t, s)
			check.Must(t, check.Received(t, down, "the shutdown"))
			if u := w.Usage(); u != (relay.Usage{}) {
				t.Errorf("%+v", u)
			}
			wantNothingLeft(t)
		})
	}
}

// TestShutdownForced: Shutdown ends the remaining calls with the reason when its context ends.
func TestShutdownForced(t *testing.T) {
	for _, scheme := range []string{"http", "https", "pipe"} {
		t.Run(scheme, func(t *testing.T) {
			w, c := stopRelayed(t, scheme, relay.Config{})
			web := make(chan error, 1)
			answer := w.slow(t, c, web)
			defer close(answer)
			var calls []grpc.ClientStream
			for i := range 20 {
				s := stream(w.ctx, t, w.cc, "Echo")
				if i%2 == 1 { // the last call, too, so that all have arrived
					check.Must(t, send(s, []byte("x")))
					_, err := recv(s)
					check.Must(t, err)
				}
				calls = append(calls, s)
			}
			ctx, cancel := context.WithTimeout(w.ctx, 30*time.Millisecond)
			defer cancel()
			if err := w.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("Shutdown: %v", err)
			}
			for _, s := range calls {
				if _, err := recv(s); status.Code(err) != codes.Unavailable ||
					status.Convert(err).Message() != "relay: DRAINING" {
					t.Errorf("%v", err)
				}
			}
			if err := check.Received(t, web, "the call of a web client"); err == nil ||
				err.Error() != "503 Service Unavailable" {
				t.Errorf("web: %v", err)
			}
			for _, r := range w.h.results(t, 20) {
				if r.Failure != relay.Draining {
					t.Errorf("%+v", r)
				}
			}
			wantNothingLeft(t)
		})
	}
}

// TestClose: Close ends everything at once: clients that send nothing, clients that do not read, and calls in every
// state.
func TestClose(t *testing.T) {
	for _, scheme := range []string{"http", "https", "pipe"} {
		t.Run(scheme, func(t *testing.T) {
			w, c := stopRelayed(t, scheme, relay.Config{})
			w.h.onHeaders(func(s *relay.Stream) {
				if s.Path() == "/t.T/Park" {
					s.Park()
				} else {
					s.Forward(w.h.target())
				}
			})
			for range 3 {
				nc, err := net.Dial("tcp", w.addr) // sends nothing
				check.Must(t, err)
				defer nc.Close()
			}
			for range 20 { // their responses are not read
				s := stream(w.ctx, t, w.cc, "Count")
				check.Must(t, send(s, []byte("100 100000")))
			}
			_ = stream(w.ctx, t, w.cc, "Park")
			answer := w.slow(t, c, make(chan error, 1))
			time.AfterFunc(100*time.Millisecond, func() { close(answer) }) // handlers return by themselves
			closed := make(chan struct{})
			go func() {
				defer close(closed)
				w.Close()
			}()
			check.Received(t, closed, "Close, which none of the others ends")
			if u := w.Usage(); u != (relay.Usage{}) {
				t.Errorf("%+v", u)
			}
			wantNothingLeft(t)
		})
	}
}

// stopRelayed returns a relayed whose client connects over HTTP, HTTPS or a pipe.
func stopRelayed(t *testing.T, scheme string, cfg relay.Config) (*relayed, *http.Client) {
	w := newRelayed(t, relay.Config{})
	w.Close() // only its backend is used
	w.h = &forwarder{}
	var web http.ServeMux
	var clientTLS *tls.Config
	if scheme == "https" {
		cfg.TLS, clientTLS = tlsConfigs(t)
	}
	web.HandleFunc("/slow", func(rw http.ResponseWriter, r *http.Request) {
		w.back.started <- struct{}{}
		select {
		case <-w.back.release:
		case <-r.Context().Done():
		}
		_, _ = io.WriteString(rw, "done")
	})
	w.Relay, w.addr = serveRelay(t, cfg, w.h, &web)
	w.h.to(w.NewUpstream(relay.UpstreamConfig{Addr: w.back.addr}))
	opts := []grpc.DialOption{}
	switch scheme {
	case "pipe":
		opts = append(opts, grpc.WithContextDialer(servePipes(t, w.Relay).dialAddr))
	case "https":
		opts = append(opts, grpc.WithTransportCredentials(credentials.NewTLS(clientTLS)))
	}
	cc, err := clienttest.NewConn("passthrough:///"+w.addr,
		append([]grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithDefaultCallOptions(grpc.ForceCodec(rawCodec{}))}, opts...)...)
	check.Must(t, err)
	check.Cleanup(t, func() { _ = cc.Close() })
	w.cc = cc
	return w, webClients(t, clientTLS)["HTTP/2.0"]
}

// slow opens a web request. Closing the channel lets its handler respond.
func (w *relayed) slow(t *testing.T, c *http.Client, done chan error) chan struct{} {
	t.Helper()
	scheme := "http"
	if c.Transport.(*http.Transport).TLSClientConfig != nil {
		scheme = "https"
	}
	go func() {
		resp, err := c.Get(scheme + "://" + w.addr + "/slow")
		if err == nil {
			_, err = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
			if resp.StatusCode != http.StatusOK {
				err = fmt.Errorf("%s", resp.Status)
			}
		}
		done <- err
	}()
	check.Received(t, w.back.started, "the start of the web request")
	return w.back.release
}
