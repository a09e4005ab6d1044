package tracing_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"
	"unsafe"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/telemetry"
	"github.com/capgate/capgate/internal/telemetry/tracing"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/oteltest"
)

const traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

// lines is a log that a test reads.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
	news chan struct{}
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case l.news <- struct{}{}:
	default:
	}
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func (l *lines) wait(t *testing.T, part string) {
	t.Helper()
	check.UntilEvent(t, fmt.Sprintf("%q in the log", part), func() (bool, string, <-chan struct{}) {
		text := l.String()
		return strings.Contains(text, part), text, l.news
	})
}

func open(t *testing.T, cfg tracing.Config) (*tracing.Tracer, *lines) {
	t.Helper()
	log := &lines{news: make(chan struct{}, 1)}
	cfg.Log = slog.New(slog.NewTextHandler(log, nil))
	if cfg.Delay == 0 {
		cfg.Delay = time.Millisecond
	}
	tracer, err := tracing.New(cfg)
	check.Must(t, err)
	t.Cleanup(func() { shut(tracer, 0) })
	return tracer, log
}

func shut(tracer *tracing.Tracer, within time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	tracer.Close(ctx)
}

// one makes a call with one attempt.
func one(tracer *tracing.Tracer, tool string) {
	c := &call.Call{Path: "/selu.capability.v1.Capability/Invoke", Method: call.Invoke, Capability: "weather",
		Tenant: "acme", Tool: tool, Session: "secret"}
	came := time.Now()
	s := tracer.Start(tracing.Parent{}, "", c, came)
	s.StartAttempt("10.0.0.7:50051", c.Path)
	s.End(&telemetry.Record{Call: c, Started: came, Ended: time.Since(came)})
}

// TestSpansArrive: over both forms of OTLP, with the configured headers.
func TestSpansArrive(t *testing.T) {
	t.Parallel()
	c := oteltest.Start(t)
	for _, endpoint := range []string{c.Addr, c.URL, c.URL + "/v1/traces"} {
		before := len(c.Spans(t, 0))
		tracer, log := open(t, tracing.Config{Endpoint: endpoint,
			Headers: map[string]string{"authorization": "Bearer secret"}, Delay: time.Hour})
		one(tracer, "get_weather")
		shut(tracer, 20*time.Second) // waiting spans are sent
		if all := c.Spans(t, before+2); len(all) != before+2 {
			t.Errorf("%s: %d spans", endpoint, len(all)-before)
		}
		if s := tracer.Stats(); s != (tracing.Stats{Exported: 2}) {
			t.Errorf("%s: %+v", endpoint, s)
		}
		if strings.Contains(log.String(), "secret") {
			t.Error(log)
		}
		one(tracer, "late")
		if s := tracer.Stats(); s != (tracing.Stats{Exported: 2, Full: 2}) {
			t.Errorf("%s: after its end %+v", endpoint, s)
		}
	}
	if headers := c.Headers(t); slices.ContainsFunc(headers, func(h string) bool { return h != "Bearer secret" }) {
		t.Errorf("headers %q", headers)
	}
}

// TestAddresses: the address of an attempt is that of the backend, which may be a URL.
func TestAddresses(t *testing.T) {
	t.Parallel()
	c := oteltest.Start(t)
	tracer, _ := open(t, tracing.Config{Endpoint: c.Addr, Sample: 1})
	for i, test := range []struct{ backend, host, port string }{
		{"10.0.0.7:50051", "10.0.0.7", "50051"},
		{"http://mcp.example:8000/mcp", "mcp.example", "8000"},
		{"https://mcp.example/mcp", "mcp.example", "443"},
		{"http://[2001:db8::7]/mcp", "2001:db8::7", "80"},
	} {
		s := tracer.Start(tracing.Parent{}, "", &call.Call{Path: "/a.B/C"}, time.Now())
		s.StartAttempt(test.backend, "/a.B/C")
		s.AttemptFailed()
		span := c.Spans(t, i+1)[i]
		if host, port := span.Of["server.address"], span.Of["server.port"]; host != test.host || port != test.port {
			t.Errorf("%s: %s, port %s", test.backend, host, port)
		}
	}
}

// TestNobodyTakesSpans: calls do not wait, lost spans are counted, and the log has one line about the loss and one
// about the return.
func TestNobodyTakesSpans(t *testing.T) {
	t.Parallel()
	c := oteltest.Start(t)
	for _, endpoint := range []string{c.Addr, c.URL} {
		c.Fail(errors.New("nobody may"))
		tracer, log := open(t, tracing.Config{Endpoint: endpoint})
		for n := int64(2); n <= 6; n += 2 {
			one(tracer, "get_weather")
			c.Headers(t)
			check.Until(t, "lost spans", func() (bool, string) {
				s := tracer.Stats()
				return s.Failed >= n, fmt.Sprintf("%+v", s)
			})
		}
		c.Fail(nil)
		one(tracer, "get_weather")
		log.wait(t, "spans are sent again")
		if s := tracer.Stats(); s.Failed != 6 || s.Full != 0 {
			t.Errorf("%+v", s)
		}
		if n := strings.Count(log.String(), "\n"); n != 2 {
			t.Errorf("%d lines: %s", n, log)
		}
	}
}

// TestASlowCollector: spans queue up to the bound, and Close does not wait for them either.
func TestASlowCollector(t *testing.T) {
	t.Parallel()
	c := oteltest.Start(t)
	for _, endpoint := range []string{c.Addr, c.URL} {
		c.Hold()
		tracer, _ := open(t, tracing.Config{Endpoint: endpoint, Queue: 100})
		for range 500 {
			one(tracer, "get_weather")
		}
		if s := tracer.Stats(); s != (tracing.Stats{Full: 900, Waiting: 100}) {
			t.Errorf("%s: %+v", endpoint, s)
		}
		c.Headers(t) // it is asked
		shut(tracer, 10*time.Millisecond)
		if s := tracer.Stats(); s != (tracing.Stats{Full: 900, Failed: 100}) {
			t.Errorf("%s: %+v at the end", endpoint, s)
		}
		c.Release()
	}
}

// TestNobodyIsThere: an unavailable collector does not prevent the start.
func TestNobodyIsThere(t *testing.T) {
	t.Parallel()
	addr := check.ClosedPort(t)
	for _, endpoint := range []string{addr, "http://" + addr} {
		tracer, _ := open(t, tracing.Config{Endpoint: endpoint})
		one(tracer, "get_weather")
		shut(tracer, 10*time.Millisecond)
		if s := tracer.Stats(); s != (tracing.Stats{Failed: 2}) {
			t.Errorf("%s: %+v", endpoint, s)
		}
	}
}

// TestWordsOfCallers: any text of a caller is readable for the collector, and bounded.
func TestWordsOfCallers(t *testing.T) {
	t.Parallel()
	c := oteltest.Start(t)
	tracer, _ := open(t, tracing.Config{Endpoint: c.Addr})
	for _, tool := range []string{"\xff\xfe", strings.Repeat("x", 10_000), "x" + strings.Repeat("é", 10_000),
		"a\x00b"} {
		one(tracer, tool)
	}
	for _, s := range c.Spans(t, 8) {
		for name, v := range s.Of {
			if len(v) > 128 || !utf8.ValidString(v) {
				t.Errorf("%s is %q", name, v)
			}
		}
	}
	if s := tracer.Stats(); s.Failed != 0 {
		t.Errorf("%+v", s)
	}
}

// TestSpansKeepNoBuffer: the texts of a call are views of a buffer that other calls use later, perhaps before its spans
// are sent.
func TestSpansKeepNoBuffer(t *testing.T) {
	t.Parallel()
	c := oteltest.Start(t)
	tracer, _ := open(t, tracing.Config{Endpoint: c.Addr, Delay: time.Hour})
	buffer := []byte("get_weather")
	one(tracer, unsafe.String(&buffer[0], len(buffer)))
	copy(buffer, "hidden_word")
	shut(tracer, 20*time.Second)
	for _, s := range c.Spans(t, 2) {
		if tool, has := s.Of["gen_ai.tool.name"]; has && tool != "get_weather" {
			t.Errorf("the tool is %q", tool)
		}
	}
}

// TestNoQuery: the query of a path may have credentials.
func TestNoQuery(t *testing.T) {
	t.Parallel()
	c := oteltest.Start(t)
	tracer, _ := open(t, tracing.Config{Endpoint: c.Addr})
	of, came := &call.Call{Path: "/a.B/C?token=hidden"}, time.Now()
	s := tracer.Start(tracing.Parent{}, "", of, came)
	s.StartAttempt("10.0.0.7:50051", of.Path)
	s.End(&telemetry.Record{Call: of, Started: came})
	for _, s := range c.Spans(t, 2) {
		if text := fmt.Sprint(s.GetName(), s.Of); !strings.Contains(text, "a.B/C") || strings.Contains(text, "hidden") {
			t.Errorf("%s", text)
		}
	}
}

// TestRedirects: a collector sends neither spans nor the headers with its credentials to another server.
func TestRedirects(t *testing.T) {
	t.Parallel()
	elsewhere := oteltest.Start(t)
	for _, status := range []int{http.StatusTemporaryRedirect, http.StatusPermanentRedirect} {
		c := httptest.NewServer(http.RedirectHandler(elsewhere.URL+"/v1/traces", status))
		tracer, _ := open(t, tracing.Config{Endpoint: c.URL, Headers: map[string]string{"x-key": "secret"}})
		one(tracer, "get_weather")
		shut(tracer, 20*time.Second)
		if s := tracer.Stats(); s != (tracing.Stats{Failed: 2}) || len(elsewhere.Spans(t, 0)) > 0 {
			t.Errorf("%d: %+v", status, s)
		}
		c.Close()
	}
}

// TestChance: about the configured fraction is sampled, and callers decide unless they are ignored.
func TestChance(t *testing.T) {
	t.Parallel()
	yes, _ := tracing.ParseParent(traceparent)
	no, _ := tracing.ParseParent(traceparent[:53] + "00")
	for _, test := range []struct {
		sample      float64
		stubborn    bool
		parent      tracing.Parent
		least, most int
	}{
		{0, false, tracing.Parent{}, 0, 0}, {1, false, tracing.Parent{}, 10_000, 10_000},
		{0.1, false, tracing.Parent{}, 800, 1200},
		{0, false, yes, 10_000, 10_000}, {1, false, no, 0, 0},
		{0, false, tracing.Sampled(yes.TraceID()), 10_000, 10_000},
		{1, false, tracing.Sampled(telemetry.TraceID{}), 0, 0},
		{0, true, yes, 0, 0}, {1, true, no, 10_000, 10_000}, {0.1, true, yes, 800, 1200},
	} {
		tracer, _ := open(t, tracing.Config{Endpoint: "127.0.0.1:1", Sample: test.sample, Follow: !test.stubborn})
		n := 0
		for range 10_000 {
			if tracer.Samples(test.parent) {
				n++
			}
		}
		if n < test.least || n > test.most {
			t.Errorf("%+v: %d", test, n)
		}
	}
}

// TestACallThatIsNotSampledAllocatesNothing is not parallel, as AllocsPerRun counts the allocations of all
// goroutines.
func TestACallThatIsNotSampledAllocatesNothing(t *testing.T) {
	tracer, _ := open(t, tracing.Config{Endpoint: "127.0.0.1:1", Sample: 0})
	var s *tracing.Span
	rec := &telemetry.Record{Call: &call.Call{}}
	header := traceparent[:53] + "00"
	if n := testing.AllocsPerRun(1000, func() {
		p, ok := tracing.ParseParent(header)
		if !ok || tracer.Samples(p) {
			t.Errorf("the header is read: %t; its call is sampled: %t", ok, tracer.Samples(p))
		}
		if tracer.Samples(tracing.Parent{}) {
			t.Error("a call without a parent is sampled")
		}
		s.Wait(tracing.ForCapacity)
		s.Resume(tracing.ForCapacity)
		s.Approved("")
		s.AttemptFailed()
		s.End(rec)
		_, _ = s.TraceID(), s.Traceparent()
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestEndpointsThatAreNone(t *testing.T) {
	t.Parallel()
	for _, endpoint := range []string{"ftp://a", "http://"} {
		if tracer, err := tracing.New(tracing.Config{Endpoint: endpoint}); err == nil {
			shut(tracer, 0)
			t.Errorf("%s is taken", endpoint)
		}
	}
}

// FuzzParent: a parsed traceparent is written as it was, and has both ids.
func FuzzParent(f *testing.F) {
	f.Add(traceparent)
	f.Add("cc" + traceparent[2:] + "-more")
	f.Add(strings.ToUpper(traceparent))
	f.Add("")
	f.Fuzz(func(t *testing.T, text string) {
		p, ok := tracing.ParseParent(text)
		if id := p.TraceID(); ok == id.IsZero() {
			t.Errorf("%q: %v, %v", text, ok, id)
		}
		if ok && fmt.Sprintf("%x", p.TraceID()) != text[3:35] {
			t.Errorf("%q: %v", text, p.TraceID())
		}
	})
}

func BenchmarkCall(b *testing.B) {
	for name, sample := range map[string]float64{"sampled": 1, "not": 0} {
		b.Run(name, func(b *testing.B) {
			tracer, err := tracing.New(tracing.Config{Endpoint: "127.0.0.1:1", Sample: sample})
			check.Must(b, err)
			b.Cleanup(func() { shut(tracer, 0) })
			b.ReportAllocs()
			for b.Loop() {
				if tracer.Samples(tracing.Parent{}) {
					one(tracer, "get_weather")
				}
			}
		})
	}
}

// TestParentsThatAreNone: a traceparent is believed only in its form (Trace Context §3.2), and a later version as far
// as it is known (§4). A tracestate is sent on only in its form.
func TestParentsThatAreNone(t *testing.T) {
	t.Parallel()
	const trace, span = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
	for text, ok := range map[string]bool{
		"00-" + trace + "-" + span + "-01":                    true,
		"01-" + trace + "-" + span + "-01-more":               true,
		"00-" + trace + "-" + span + "-01-more":               false,
		"01-" + trace + "-" + span + "-01more":                false,
		"ff-" + trace + "-" + span + "-01":                    false,
		"00-" + strings.Repeat("0", 32) + "-" + span + "-01":  false,
		"00-" + trace + "-" + strings.Repeat("0", 16) + "-01": false,
		"00-" + strings.ToUpper(trace) + "-" + span + "-01":   false,
		"00-" + trace + "-" + span + "-0":                     false,
		"00_" + trace + "-" + span + "-01":                    false,
	} {
		if p, is := tracing.ParseParent(text); is != ok || is && p.TraceID().Text() != trace {
			t.Errorf("%s: %v", text, is)
		}
	}
	if !tracing.IsState("a=1,b=2") || tracing.IsState("a=1,a=2") || tracing.IsState("no state") {
		t.Error("states")
	}
}
