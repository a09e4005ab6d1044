package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/capgate/capgate/internal/testkit/check"
)

// faulty is a suite whose messages and calls are counted.
type faulty struct {
	*suite
	revision string
	servers  []*countedServer
	requests *requests
	calls    *callCounts
	url      string // of /mcp, at the load balancer
}

// startFaulty runs gateways in front of two servers. They wait for Redis as long as patience.
func startFaulty(t *testing.T, revision string, patience time.Duration) *faulty {
	t.Helper()
	c := startBackends(t, 0)
	s := &faulty{revision: revision, calls: &callCounts{traces: map[string]int{}}}
	var addrs []string
	for i := range 2 {
		b := &countedServer{front: net.JoinHostPort(c.host, strconv.Itoa(20_001+i)), calls: s.calls,
			member: &member{addr: net.JoinHostPort(c.host, strconv.Itoa(20_011+i))}}
		b.start(t, revision)
		s.servers, addrs = append(s.servers, b), append(addrs, b.front)
	}
	s.calls.last.Store(s.servers[0])
	s.suite = startSuite(t, c, fmt.Sprintf("redis: {url: '%s', timeout: %v}", c.redis.URL(), patience), 5*time.Second,
		addrs...)
	s.requests = &requests{next: s.spread}
	s.url = balance(t, s.requests) + "/mcp"
	return s
}

// requests is the transport to the load balancer. It gives each request its own trace, and collects the errors in the
// responses.
type requests struct {
	next   http.RoundTripper
	traces atomic.Uint64

	mu     sync.Mutex
	seen   int // since watch
	before func(message int)
	errors map[string]bool
}

// watch starts to count. before is called before each request, one at a time, and may be nil.
func (s *requests) watch(before func(message int)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen, s.before, s.errors = 0, before, map[string]bool{}
}

// report returns the messages and errors since watch.
func (s *requests) report() (messages int, errors map[string]bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.before = nil
	return s.seen, s.errors
}

func (s *requests) count() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.seen++; s.before != nil {
		s.before(s.seen)
	}
}

func (s *requests) failed(with string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.errors[with] = true
}

// RoundTrip implements http.RoundTripper.
func (s *requests) RoundTrip(r *http.Request) (*http.Response, error) {
	s.count()
	r = r.Clone(r.Context())
	r.Header.Set("Traceparent", fmt.Sprintf("00-%032x-%016x-01", s.traces.Add(1), 1))
	resp, err := s.next.RoundTrip(r)
	switch {
	case err == nil:
		resp.Body = &response{ReadCloser: resp.Body, of: s, ctx: r}
	case r.Context().Err() == nil:
		s.failed(brokenOff)
	}
	return resp, err
}

// response is the body of a response. It finds the reasons of the gateway's errors.
type response struct {
	io.ReadCloser
	of   *requests
	ctx  *http.Request
	tail []byte // the end of what was read, without the reasons already found
}

// maxReason is the length of the longest reason with its name, in bytes.
const maxReason = 64

func (b *response) Read(p []byte) (n int, err error) {
	n, err = b.ReadCloser.Read(p)
	b.tail = append(b.tail, p[:n]...)
	for _, m := range reasonText.FindAllSubmatch(b.tail, -1) {
		b.of.failed(string(m[1]))
	}
	b.tail = bytes.Clone(b.tail[max(0, len(b.tail)-maxReason):])
	if err != nil && !errors.Is(err, io.EOF) && b.ctx.Context().Err() == nil {
		b.of.failed(brokenOff)
	}
	return n, err
}

// callCounts counts the calls of tools that reached a server, by their traces.
type callCounts struct {
	last atomic.Pointer[countedServer] // got the last request

	mu     sync.Mutex
	traces map[string]int
}

func (c *callCounts) add(trace string, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.traces[trace] += n
}

// once fails the test if a call ran twice.
func (c *callCounts) once(t *testing.T) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	for trace, n := range c.traces {
		if n > 1 {
			t.Errorf("the servers ran the call %s %d times", trace, n)
		}
	}
	if len(c.traces) == 0 {
		t.Error("the servers got no call")
	}
	t.Logf("the servers ran %d calls", len(c.traces))
}

// countedServer is a replica of everything-server behind a proxy that counts its calls. They start and end together.
type countedServer struct {
	*member
	front string // the proxy's address
	calls *callCounts
	proxy *http.Server
}

func (b *countedServer) start(t *testing.T, revision string) {
	t.Helper()
	b.program = startEverything(t, b.addr, revision)
	listener, err := net.Listen("tcp", b.front)
	check.Must(t, err)
	b.proxy = &http.Server{Handler: b, ReadHeaderTimeout: check.Patience}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = b.proxy.Serve(listener)
	}()
	proxy := b.proxy
	t.Cleanup(func() {
		_ = proxy.Close()
		<-served
	})
}

func (b *countedServer) kill() {
	_ = b.proxy.Close() // no 502 in place of a broken connection
	b.member.kill()
}

// ServeHTTP implements http.Handler. A call that the server refuses has not run.
func (b *countedServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	var message struct{ Method string }
	_ = json.Unmarshal(body, &message)
	if message.Method != "" && message.Method != "ping" && message.Method != "server/discover" {
		b.calls.last.Store(b)
	}
	trace := r.Header.Get("Traceparent")
	runs := message.Method == "tools/call"
	if runs {
		b.calls.add(trace, 1)
	}
	(&httputil.ReverseProxy{FlushInterval: -1, ErrorLog: log.New(io.Discard, "", 0),
		Rewrite: func(p *httputil.ProxyRequest) { p.SetURL(&url.URL{Scheme: "http", Host: b.addr}) },
		ModifyResponse: func(resp *http.Response) error {
			if runs && resp.StatusCode >= http.StatusBadRequest {
				b.calls.add(trace, -1)
			}
			return nil
		}}).ServeHTTP(w, r)
}
