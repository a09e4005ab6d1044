package oteltest

import (
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	otlpcommon "go.opentelemetry.io/proto/otlp/common/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	"github.com/capgate/capgate/internal/testkit/check"
)

// Span is a received span.
type Span struct {
	*otlp.Span
	Trace, ID, Parent string            // in hex; Parent "" for none
	Of                map[string]string // attributes; numbers in decimal
	Resource          map[string]string // attributes of the process
}

// Events returns the names of the span's events, each with the value of its first attribute.
func (s *Span) Events() (all []string) {
	for _, e := range s.GetEvents() {
		name := e.GetName()
		if of := e.GetAttributes(); len(of) > 0 {
			name += " " + text(of[0].GetValue())
		}
		all = append(all, name)
	}
	return all
}

// Collector accepts spans until its test ends.
type Collector struct {
	Addr string // of OTLP over gRPC, host:port
	URL  string // of OTLP over HTTP

	collector.UnimplementedTraceServiceServer
	mu      sync.Mutex
	spans   []*Span
	fails   error
	hold    chan struct{} // if not nil, requests wait until it is closed
	headers []string      // of requests: "authorization"
	news    chan struct{} // closed, and replaced, by every request
}

// Start runs a collector.
func Start(t testing.TB) *Collector {
	t.Helper()
	c := &Collector{news: make(chan struct{})}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	check.Must(t, err)
	server := grpc.NewServer()
	collector.RegisterTraceServiceServer(server, c)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(ln) // ends with Stop
	}()
	web := httptest.NewServer(c)
	c.Addr, c.URL = ln.Addr().String(), web.URL
	check.Cleanup(t, func() {
		c.Release()
		server.Stop()
		<-done
		web.Close()
	})
	return c
}

// Fail makes requests fail; nil ends that.
func (c *Collector) Fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fails = err
}

// Hold makes requests wait for Release.
func (c *Collector) Hold() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hold = make(chan struct{})
}

// Release ends the wait.
func (c *Collector) Release() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.hold != nil {
		close(c.hold)
		c.hold = nil
	}
}

// Export implements the service.
func (c *Collector) Export(ctx context.Context,
	r *collector.ExportTraceServiceRequest) (*collector.ExportTraceServiceResponse, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	var header string
	if h := md.Get("authorization"); len(h) > 0 {
		header = h[0]
	}
	return &collector.ExportTraceServiceResponse{}, c.take(ctx, r, header)
}

// ServeHTTP implements it over HTTP.
func (c *Collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	var request collector.ExportTraceServiceRequest
	if err != nil || r.URL.Path != "/v1/traces" || proto.Unmarshal(body, &request) != nil {
		http.Error(w, "not a request", http.StatusBadRequest)
		return
	}
	if err := c.take(r.Context(), &request, r.Header.Get("Authorization")); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/x-protobuf")
}

func (c *Collector) take(ctx context.Context, r *collector.ExportTraceServiceRequest, header string) error {
	c.mu.Lock()
	hold, fails := c.hold, c.fails
	c.headers = append(c.headers, header)
	close(c.news)
	c.news = make(chan struct{})
	c.mu.Unlock()
	if hold != nil {
		select {
		case <-hold:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if fails != nil {
		return fails
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, of := range r.GetResourceSpans() {
		for _, scope := range of.GetScopeSpans() {
			for _, s := range scope.GetSpans() {
				c.spans = append(c.spans, &Span{
					Span: s, Trace: hex.EncodeToString(s.GetTraceId()), ID: hex.EncodeToString(s.GetSpanId()),
					Parent: hex.EncodeToString(s.GetParentSpanId()),
					Of:     attributes(s.GetAttributes()), Resource: attributes(of.GetResource().GetAttributes()),
				})
			}
		}
	}
	close(c.news)
	c.news = make(chan struct{})
	return nil
}

// Spans waits for n spans, and returns all.
func (c *Collector) Spans(t testing.TB, n int) (all []*Span) {
	t.Helper()
	c.wait(t, "spans", func() bool { all = append([]*Span(nil), c.spans...); return len(c.spans) >= n })
	return all
}

// Headers waits for a request, and returns the authorization of each.
func (c *Collector) Headers(t testing.TB) (all []string) {
	t.Helper()
	c.wait(t, "a request", func() bool { all = append([]string(nil), c.headers...); return len(c.headers) > 0 })
	return all
}

func (c *Collector) wait(t testing.TB, what string, there func() bool) {
	t.Helper()
	check.UntilEvent(t, what, func() (bool, string, <-chan struct{}) {
		c.mu.Lock()
		defer c.mu.Unlock()
		return there(), fmt.Sprintf("there are %d spans", len(c.spans)), c.news
	})
}

func attributes(list []*otlpcommon.KeyValue) map[string]string {
	all := map[string]string{}
	for _, kv := range list {
		all[kv.GetKey()] = text(kv.GetValue())
	}
	return all
}

func text(v *otlpcommon.AnyValue) string {
	switch v := v.GetValue().(type) {
	case *otlpcommon.AnyValue_IntValue:
		return strconv.FormatInt(v.IntValue, 10)
	case *otlpcommon.AnyValue_StringValue:
		return v.StringValue
	}
	return v.String()
}
