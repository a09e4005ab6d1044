package httpclient_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/capgate/capgate/internal/lib/httpclient"
	"github.com/capgate/capgate/internal/testkit/check"
)

// server serves a page for each thing that a client must not do.
func server(t *testing.T) (at string) {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("/redirect", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Location", "/")
		w.WriteHeader(http.StatusTemporaryRedirect)
	})
	mux.HandleFunc("/headers", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Long", strings.Repeat("a", 70<<10))
	})
	mux.HandleFunc("/slow", func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusOK)
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.Header.Get("Cookie")+r.Header.Get("Accept-Encoding"))
	})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s.URL
}

// get returns the status and the body of a response.
func get(t *testing.T, c *http.Client, at string) (string, error) {
	ctx, cancel := context.WithTimeout(t.Context(), check.Patience)
	defer cancel()
	defer c.CloseIdleConnections()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return "", err
	}
	resp, err := c.Do(request)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return http.StatusText(resp.StatusCode) + " " + string(text), err
}

// TestBounds: a server can neither send a client elsewhere, nor fill its memory with headers, nor hold it.
func TestBounds(t *testing.T) {
	t.Parallel()
	at := server(t)
	for name, test := range map[string]struct {
		config     httpclient.Config
		path, want string
		wrong      string // part of the error; "timeout" stands for any timeout, as two timers of net/http race
	}{
		"redirect":             {path: "/redirect", want: "Temporary Redirect "},
		"long headers":         {path: "/headers", wrong: "headers exceeded"},
		"allowed long headers": {config: httpclient.Config{MaxHeader: 1 << 20}, path: "/headers", want: "OK "},
		"slow body": {config: httpclient.Config{Timeout: 200 * time.Millisecond}, path: "/slow",
			wrong: "timeout"},
		"no compression": {path: "/", want: "OK "},
		"compression":    {config: httpclient.Config{Compression: true}, path: "/", want: "OK gzip"},
		"proxy": {config: httpclient.Config{Proxy: func(*http.Request) (*url.URL, error) {
			return nil, errors.New("the proxy is asked for")
		}}, path: "/", wrong: "the proxy is asked for"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := get(t, httpclient.New(test.config), at+test.path)
			if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() {
				err = fmt.Errorf("timeout: %w", err)
			}
			if (err != nil) != (test.wrong != "") || err != nil && !strings.Contains(err.Error(), test.wrong) ||
				err == nil && strings.TrimSpace(got) != strings.TrimSpace(test.want) {
				t.Errorf("%q, %v", got, err)
			}
		})
	}
}

// TestNothingIsKept: a client sends no cookie, and its concurrent requests never exceed its limit of connections. A
// connection that a busy machine has delayed may be replaced.
func TestNothingIsKept(t *testing.T) {
	t.Parallel()
	var handled, most atomic.Int32
	var first sync.Once
	more := make(chan struct{}, 40)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if n := handled.Add(1); n > 1 {
			most.Store(n)
			more <- struct{}{}
		}
		first.Do(func() {
			select { // a second connection would send a request now
			case <-more:
			case <-time.After(100 * time.Millisecond):
			}
		})
		http.SetCookie(w, &http.Cookie{Name: "a", Value: "b"})
		_, _ = io.WriteString(w, r.Header.Get("Cookie"))
		handled.Add(-1)
	}))
	t.Cleanup(s.Close)
	c := httpclient.New(httpclient.Config{MaxConns: 1, MaxIdle: 1})
	defer c.CloseIdleConnections()
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			for range 2 {
				resp, err := c.Get(s.URL)
				if err != nil {
					t.Error(err)
					return
				}
				if text, err := io.ReadAll(resp.Body); err != nil || len(text) > 0 {
					t.Errorf("%q, %v", text, err)
				}
				_ = resp.Body.Close()
			}
		})
	}
	all.Wait()
	if n := most.Load(); n > 0 {
		t.Errorf("%d requests at once over one connection", n)
	}
}

// TestTLS: HTTP/2 is spoken over TLS, and no version of TLS before 1.2. A certificate of no known CA is refused.
func TestTLS(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		max     uint16 // version of the server
		unknown bool   // its CA
		want    string
		wrong   string
	}{
		"current":    {max: tls.VersionTLS13, want: "OK HTTP/2.0"},
		"old":        {max: tls.VersionTLS11, wrong: "protocol version"},
		"unknown CA": {max: tls.VersionTLS13, unknown: true, wrong: "certificate"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.WriteString(w, r.Proto)
			}))
			s.Config.ErrorLog = log.New(io.Discard, "", 0)
			s.EnableHTTP2 = true
			s.TLS = &tls.Config{MinVersion: tls.VersionTLS10, MaxVersion: test.max}
			s.StartTLS()
			defer s.Close()
			config := httpclient.Config{}
			if !test.unknown {
				config.TLS = &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: x509.NewCertPool()}
				config.TLS.RootCAs.AddCert(s.Certificate())
			}
			got, err := get(t, httpclient.New(config), s.URL)
			if got != test.want || (err != nil) != (test.wrong != "") ||
				err != nil && !strings.Contains(err.Error(), test.wrong) {
				t.Errorf("%q, %v", got, err)
			}
		})
	}
}

// TestEnvironment: no client uses the proxy of the environment, or cookies, unless it was given them.
func TestEnvironment(t *testing.T) {
	t.Parallel()
	c := httpclient.New(httpclient.Config{})
	if httpclient.Proxy(c) != nil || c.Jar != nil {
		t.Error("a client has a proxy or cookies that it was not given")
	}
}

// TestUserAgent: a request has the name of its client, unless it has a User-Agent; its own header does not change.
func TestUserAgent(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.UserAgent())
	}))
	t.Cleanup(s.Close)
	for name, test := range map[string]struct {
		config httpclient.Config
		header http.Header
		want   string
	}{
		"default": {want: "capgate"},
		"name":    {config: httpclient.Config{Name: "capgate-webhook"}, header: http.Header{}, want: "capgate-webhook"},
		"request": {header: http.Header{"User-Agent": {"other/1"}}, want: "other/1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL, nil)
			check.Must(t, err)
			request.Header = test.header
			before := test.header.Clone()
			c := httpclient.New(test.config)
			defer c.CloseIdleConnections()
			resp, err := c.Do(request)
			check.Must(t, err)
			text, err := io.ReadAll(resp.Body)
			check.Must(t, errors.Join(err, resp.Body.Close()))
			if got, _, _ := strings.Cut(string(text), "/v"); got != test.want {
				t.Errorf("%q, want %q", text, test.want)
			}
			if !reflect.DeepEqual(request.Header, before) {
				t.Errorf("the header is now %v", request.Header)
			}
		})
	}
}

// TestDeadAddress: an address that takes no connection does not hold a request, also one without a timeout.
func TestDeadAddress(t *testing.T) {
	t.Parallel()
	ln := check.Listen(t)
	raw, err := ln.(*net.TCPListener).SyscallConn()
	check.Must(t, err)
	check.Must(t, raw.Control(func(fd uintptr) { _ = syscall.Listen(int(fd), 0) })) // no backlog
	// No further connection is taken after a few. One that a busy machine delays is no evidence of that.
	late := 0
	for dials := 0; late < 5 && dials < 50; dials++ {
		conn, err := net.DialTimeout("tcp", ln.Addr().String(), 200*time.Millisecond)
		if err != nil {
			late++
			continue
		}
		late = 0
		defer conn.Close()
	}
	_, err = get(t, httpclient.New(httpclient.Config{Handshake: 300 * time.Millisecond}), "http://"+ln.Addr().String())
	if !strings.Contains(fmt.Sprint(err), "i/o timeout") {
		t.Errorf("%v, want a timeout of the connection", err)
	}
}
