package connect

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/capgate/capgate/gateway/frontdoor/bodybudget"
	"github.com/capgate/capgate/gateway/frontdoor/request"
	"github.com/capgate/capgate/gateway/frontdoor/unary"
	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/fairshare"
	"github.com/capgate/capgate/internal/testkit/check"
	docpb "github.com/capgate/capgate/proto/selu/capability"
)

const mib = 1 << 20

// sender is the owner of a request body.
type sender struct{}

func (sender) Account() (tenant, from string)     { return "acme", "" }
func (sender) Authenticate(context.Context) error { return nil }
func (sender) Admit(int64) error                  { return nil }
func (sender) Charge(int64)                       {}
func (sender) Exceeded(int64) error               { return status.Error(codes.ResourceExhausted, "OVERLOADED") }
func (sender) Reserved() *bodybudget.Reservation  { return new(bodybudget.Reservation) }

// behindBudget serves a request, whose body may hold most of a pool.
func behindBudget(h http.Handler, pool *fairshare.Pool, r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	bodybudget.New(pool).Handler(func(*http.Request) bodybudget.Owner { return sender{} }, h).ServeHTTP(w, r)
	return w
}

func post(path, contentType string, body io.Reader) *http.Request {
	r := httptest.NewRequest(http.MethodPost, path, body)
	r.Header.Set("Content-Type", contentType)
	return r
}

func reasonIn(err error) string {
	var r *call.Refusal
	if errors.As(err, &r) {
		return r.Reason
	}
	return ""
}

// TestOnlySchemasOfServedMethods: a schema that a library has linked into the process is not one of the door's.
func TestOnlySchemasOfServedMethods(t *testing.T) {
	t.Parallel()
	const traces = "opentelemetry.proto.collector.trace.v1.TraceService"
	if _, err := protoregistry.GlobalFiles.FindDescriptorByName(traces); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		docpb.Capability_Invoke_FullMethodName: "", "/grpc.health.v1.Health/Check": "",
		"/" + traces + "/Export": "JSON_UNSUPPORTED", "/a.B/C": "JSON_UNSUPPORTED",
		"/selu.capability.Capability/Nope": "JSON_UNSUPPORTED",
	} {
		if got := reasonIn(targetOf(post(path, "application/json", nil)).checkSchema()); got != want {
			t.Errorf("%s: %q, not %q", path, got, want)
		}
	}
}

// TestDecodedMemoryIsCharged: a short text of many values is charged as what it becomes, and the number of values has a
// limit.
func TestDecodedMemoryIsCharged(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		values int
		budget int64
		want   string
	}{
		"few values":       {10, 100 << 10, ""},
		"many values":      {bodybudget.MaxValues / 2, 64 * mib, ""},
		"without room":     {bodybudget.MaxValues / 2, 4 * mib, "OVERLOADED"},
		"too many values":  {bodybudget.MaxValues, 64 * mib, "MESSAGE_TOO_LARGE"},
		"far more of them": {mib, 64 * mib, "MESSAGE_TOO_LARGE"},
	} {
		text := `{"unknown":[0` + strings.Repeat(",0", test.values-1) + `]}`
		got := ""
		pool := fairshare.New("bodies", test.budget)
		behindBudget(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			to := targetOf(r)
			to.body = &heldBody{held: bodybudget.FromContext(r.Context())}
			_, err := to.decode(nil, []byte(text))
			if got = reasonIn(err); err != nil && got == "" {
				got = err.Error()
			}
		}), pool, post(docpb.Capability_Invoke_FullMethodName, "application/json", strings.NewReader("{}")))
		if got != test.want || pool.Used() != 0 {
			t.Errorf("%s: %q, not %q; %d bytes are charged", name, got, test.want, pool.Used())
		}
	}
}

// TestJSONUsesTheMemoryOfTheCall: messages of a call are converted in its own memory, and Clear overwrites them. What a
// decoder has written of a message that it cannot read is overwritten at once.
func TestJSONUsesTheMemoryOfTheCall(t *testing.T) {
	t.Parallel()
	reply, err := proto.Marshal(&docpb.InvokeResponse{ResultJson: []byte("{}")})
	check.Must(t, err)
	broken := base64.StdEncoding.EncodeToString(bytes.Repeat([]byte("secret"), 20)) + strings.Repeat(`\n`, 40)
	for text, ok := range map[string]bool{
		`{"toolName":"t","argsJson":"c2VjcmV0"}`: true, `{"toolName":"secret","argsJson":"="}`: false,
		`{"argsJson":"` + broken + `"}`: true,
	} {
		c := &unary.Call{Body: make([]byte, 0, mib), Message: make([]byte, 0, mib)}
		body, msg := c.Body[:mib], c.Message[:mib]
		c.Body = append(c.Body, text...)
		r := post(docpb.Capability_Invoke_FullMethodName, "application/json", nil)
		to, w := targetOf(r), httptest.NewRecorder()
		to.body = &heldBody{held: bodybudget.FromContext(r.Context())}
		to.in, to.out = flatFor(t, &docpb.InvokeRequest{}), flatFor(t, &docpb.InvokeResponse{})
		if err := to.request(c, r.Header, c.Body); ok != (err == nil) || ok != bytes.Contains(msg, []byte("secret")) {
			t.Fatalf("%s: %v; the call is %q", text, err, msg[:100])
		}
		c.Response.Message = reply
		if failed := to.respond(w, r, c, mib); failed != nil || &c.Body[0] != &body[0] {
			t.Errorf("%s: %v, or other memory", text, failed)
		}
		if got := w.Body.String(); got != `{"resultJson":"e30="}` {
			t.Errorf("%s: %s", text, got)
		}
		c.Clear()
		if len(bytes.Trim(body, "\x00"))+len(bytes.Trim(msg, "\x00")) > 0 {
			t.Errorf("%s: %q and %q remain", text, bytes.Trim(body, "\x00"), bytes.Trim(msg, "\x00"))
		}
	}
}

// TestTheEndOfARequestIsShort: the end has no meaning, so it takes no memory.
func TestTheEndOfARequestIsShort(t *testing.T) {
	t.Parallel()
	long := `{"metadata":{"a":["` + strings.Repeat(`","`, 5*mib) + `"]}}`
	for name, test := range map[string]struct {
		flags byte
		data  string
		want  error
	}{
		"of Connect":               {flagConnectEnd, `{"metadata":{"a":["b"]}}`, io.EOF},
		"of Connect, long":         {flagConnectEnd, long, errTooLong},
		"of Connect, no object":    {flagConnectEnd, `[]`, errMalformed},
		"of Connect, empty":        {flagConnectEnd, ``, errMalformed},
		"of gRPC-Web":              {flagWebTrailers, "a: b\r\nc:d\r\n", io.EOF},
		"of gRPC-Web, empty":       {flagWebTrailers, "", io.EOF},
		"of gRPC-Web, long":        {flagWebTrailers, strings.Repeat("a:\n", 5*mib), errTooLong},
		"of gRPC-Web, no trailers": {flagWebTrailers, "a: b\r\nc", errMalformed},
		"of gRPC-Web, no name":     {flagWebTrailers, ": b", errMalformed},
	} {
		for _, packed := range []bool{false, true} {
			flags, data := test.flags, []byte(test.data)
			if packed && len(data) > 0 {
				flags, data = flags|flagCompressed, zipped(t, test.data)
			}
			body := append(binary.BigEndian.AppendUint32([]byte{flags}, uint32(len(data))), data...)
			f := frames{in: bytes.NewReader(body), gzip: true, most: 16 * mib, end: test.flags}
			if _, err := f.next(); !errors.Is(err, test.want) {
				t.Errorf("%s, compressed %t: %v, not %v", name, packed, err, test.want)
			}
		}
	}
}

func zipped(t *testing.T, text string) []byte {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, err := io.WriteString(w, text)
	check.Must(t, errors.Join(err, w.Close()))
	return out.Bytes()
}

// zeroes is an endless body, of which n bytes were read.
type zeroes struct {
	n    int
	pool *fairshare.Pool
	held int64 // charged at the last Read
}

func (z *zeroes) Read(p []byte) (int, error) {
	clear(p)
	z.held = z.pool.Used()
	z.n += len(p)
	return len(p), nil
}

// TestDiscardedBytesAreNotHeld: what follows a message that is too long is neither charged nor read for ever, and the
// error is that of the message.
func TestDiscardedBytesAreNotHeld(t *testing.T) {
	t.Parallel()
	const most = mib
	conn := &endless{over: make(chan struct{})}
	door := New(conn.calls(), Config{MaxMessage: most})
	for typ, first := range map[string]string{"application/proto": "", "application/grpc-web": "\x00\x7f\xff\xff\xff"} {
		rest := &zeroes{pool: fairshare.New("bodies", 4*most)}
		r := post(docpb.Capability_Invoke_FullMethodName, typ, io.MultiReader(strings.NewReader(first), rest))
		r.ContentLength = -1
		w := behindBudget(door, rest.pool, r)
		text := w.Body.String() + w.Header().Get("Grpc-Message")
		if !strings.Contains(text, "longer than the gateway accepts") || w.Header().Get("Retry-After") != "" {
			t.Errorf("%s: %d, %v, %.200s", typ, w.Code, w.Header(), text)
		}
		if enough := most + maxDiscarded + most/2; rest.n > enough || rest.held > most/4 {
			t.Errorf("%s: %d bytes were read, of which %d were charged", typ, rest.n, rest.held)
		}
	}
}

// TestTooLongIsFinal: a message that is too long can never succeed, whatever its rest has met.
func TestTooLongIsFinal(t *testing.T) {
	t.Parallel()
	to := &target{body: &heldBody{Reader: strings.NewReader(""),
		failed: failureOf(sender{}.Exceeded(0), call.NotSent)}}
	if got := reasonIn(to.unread(t.Context(), errTooLong)); got != "MESSAGE_TOO_LARGE" {
		t.Error(got)
	}
}

// sized makes calls whose response has messages of one size.
type sized struct {
	endlessStream
	messages, size, opened int
}

func (s *sized) calls() Calls {
	return Calls{Open: func(context.Context, relay.Request) (Stream, error) {
		s.opened++
		return s, nil
	}}
}

func (s *sized) Cancel() {}

func (s *sized) Reject() {}

func (s *sized) Receive([]byte) ([]byte, error) {
	if s.messages--; s.messages < 0 {
		return nil, io.EOF
	}
	return proto.Marshal(&docpb.InvokeChunk{Data: make([]byte, s.size)})
}

// room is memory for responses. It implements request.Results.
type room int64

func (r *room) Reserve(n int64) bool {
	if n > int64(*r) {
		return false
	}
	*r -= room(n)
	return true
}

func (r *room) Release(n int64) { *r += room(n) }
func (*room) Exceeded() error   { return status.Error(codes.ResourceExhausted, "RESULTS_FULL") }

// TestLongJSONStreams: a stream of JSON is charged with its longest message, however many there are.
func TestLongJSONStreams(t *testing.T) {
	t.Parallel()
	for size, whole := range map[int]bool{6000: true, 100_000: true, mib: false} {
		r := post(docpb.Capability_StreamInvoke_FullMethodName, "application/connect+json",
			strings.NewReader("\x00\x00\x00\x00\x02{}"))
		left := room(mib)
		w := httptest.NewRecorder()
		s := &sized{messages: 100, size: size}
		New(s.calls(), Config{}).ServeHTTP(w, request.With(r, request.ResultsKey(), &left))
		full := strings.Contains(w.Body.String(), "RESULTS_FULL")
		if full == whole || whole && w.Body.Len() < 100*size {
			t.Errorf("messages of %d bytes: a response of %d, without room %t", size, w.Body.Len(), full)
		}
	}
}

// TestJSONWithoutASchema: a method without a schema is rejected before its call, even without a message.
func TestJSONWithoutASchema(t *testing.T) {
	t.Parallel()
	for _, typ := range []string{"application/connect+json", "application/grpc-web+json",
		"application/grpc-web-text+json"} {
		w := httptest.NewRecorder()
		s := &sized{messages: 1, size: 1}
		New(s.calls(), Config{}).ServeHTTP(w, post("/custom.v1.Files/Shout", typ, strings.NewReader("")))
		if text := w.Body.String() + w.Header().Get("Grpc-Message"); s.opened != 0 ||
			!strings.Contains(text, "only accepts protobuf") {
			t.Errorf("%s: %d calls, %d, %v, %s", typ, s.opened, w.Code, w.Header(), text)
		}
	}
}
