package relay_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	_ "google.golang.org/grpc/encoding/gzip" // for compressed calls
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/testkit/check"
)

// forwarder is a small handler. It forwards every call that the test does not decide itself to its target.
type forwarder struct {
	mu      sync.Mutex
	up      *relay.Upstream
	headers func(*relay.Stream)
	message func(*relay.Stream, relay.Message)
	unsent  func(*relay.Stream, error)
	again   func(*relay.Stream, relay.Answer) bool
	let     bool // streams over a limit continue
	done    []relay.Result
}

func (f *forwarder) to(u *relay.Upstream)                            { set(f, &f.up, u) }
func (f *forwarder) onHeaders(do func(*relay.Stream))                { set(f, &f.headers, do) }
func (f *forwarder) onMessage(do func(*relay.Stream, relay.Message)) { set(f, &f.message, do) }
func (f *forwarder) onUnsent(do func(*relay.Stream, error))          { set(f, &f.unsent, do) }
func (f *forwarder) onAgain(do func(*relay.Stream, relay.Answer) bool) {
	set(f, &f.again, do)
}
func (f *forwarder) target() *relay.Upstream { return get(f, &f.up) }

func set[T any](f *forwarder, field *T, v T) {
	f.mu.Lock()
	defer f.mu.Unlock()
	*field = v
}

func get[T any](f *forwarder, field *T) T {
	f.mu.Lock()
	defer f.mu.Unlock()
	return *field
}

func (f *forwarder) Headers(s *relay.Stream) {
	if do := get(f, &f.headers); do != nil {
		do(s)
	} else {
		s.Forward(f.target())
	}
}

func (f *forwarder) Message(s *relay.Stream, m relay.Message) {
	if do := get(f, &f.message); do != nil {
		do(s, m)
	} else {
		s.Forward(f.target())
	}
}

func (f *forwarder) Unsent(s *relay.Stream, err error) {
	if do := get(f, &f.unsent); do != nil {
		do(s, err)
	} else {
		s.Refuse(relay.Status{Code: 14, Message: "unsent: " + err.Error()})
	}
}

func (f *forwarder) Again(s *relay.Stream, a relay.Answer) bool {
	do := get(f, &f.again)
	return do != nil && do(s, a)
}

func (f *forwarder) Started(*relay.Stream) {}

func (f *forwarder) Done(_ *relay.Stream, r *relay.Result) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.done = append(f.done, *r)
}

// results waits until n calls have ended.
func (f *forwarder) results(t testing.TB, n int) []relay.Result {
	t.Helper()
	var done []relay.Result
	check.Succeeds(t, "the calls to be done", func() error {
		f.mu.Lock()
		defer f.mu.Unlock()
		if done = f.done; len(done) < n {
			return fmt.Errorf("%d calls are done, not %d", len(done), n)
		}
		return nil
	})

	return done
}

// serveRelay starts a relay and returns its address.
func serveRelay(t testing.TB, cfg relay.Config, h relay.Handler, web http.Handler) (*relay.Relay, string) {
	t.Helper()
	if web == nil {
		web = http.NotFoundHandler()
	}
	r := relay.New(cfg, h, web)
	ln := check.Listen(t)
	served := make(chan error, 1)
	go func() { served <- r.Serve(ln) }()
	check.Cleanup(t, func() {
		r.Close()
		if err := check.Received(t, served, "the end of serving"); err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return r, ln.Addr().String()
}

// relayed is a relay, a grpc-go backend behind it and a grpc-go client before it.
type relayed struct {
	*relay.Relay
	h    *forwarder
	addr string
	back *backend
	cc   *grpc.ClientConn
	ctx  context.Context
}

func newRelayed(t testing.TB, cfg relay.Config, opts ...grpc.ServerOption) *relayed {
	t.Helper()
	w := &relayed{h: &forwarder{}, back: newBackend(t, opts...)}
	if cfg.Forwarding.RefusedWithin == 0 {
		cfg.Forwarding.RefusedWithin = check.Patience // depends on the machine
	}
	w.Relay, w.addr = serveRelay(t, cfg, w.h, nil)
	w.h.to(w.NewUpstream(relay.UpstreamConfig{Addr: w.back.addr}))
	w.cc = dialRaw(t, w.addr)
	// The timeout covers all calls of a test, which may take many seconds on a busy machine.
	ctx, cancel := context.WithTimeout(t.Context(), 5*check.Patience)
	check.Cleanup(t, cancel)
	w.ctx = ctx
	return w
}

// dialRaw returns a client whose messages are plain bytes.
func dialRaw(t testing.TB, addr string, opts ...grpc.DialOption) *grpc.ClientConn {
	return dialGRPC(t, addr, append(opts, grpc.WithDefaultCallOptions(grpc.ForceCodec(rawCodec{}),
		grpc.MaxCallRecvMsgSize(64<<20)), grpc.WithMaxHeaderListSize(1<<20))...)
}

// rawCodec passes []byte through.
type rawCodec struct{}

func (rawCodec) Name() string                  { return "raw" }
func (rawCodec) Marshal(v any) ([]byte, error) { return *v.(*[]byte), nil }
func (rawCodec) Unmarshal(p []byte, v any) error {
	*v.(*[]byte) = append([]byte(nil), p...)
	return nil
}

var _ encoding.Codec = rawCodec{}

// unary calls a method with one message.
func unary(ctx context.Context, cc *grpc.ClientConn, method string, msg []byte, opts ...grpc.CallOption) ([]byte,
	error) {
	var out []byte
	err := cc.Invoke(ctx, "/t.T/"+method, &msg, &out, opts...)
	return out, err
}

// stream opens a call of any kind.
func stream(ctx context.Context, t testing.TB, cc *grpc.ClientConn, method string,
	opts ...grpc.CallOption) grpc.ClientStream {
	t.Helper()
	s, err := cc.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, "/t.T/"+method, opts...)
	check.Must(t, err)
	return s
}

// messages is one end of a stream.
type messages interface {
	SendMsg(m any) error
	RecvMsg(m any) error
}

func send(s messages, msg []byte) error { return s.SendMsg(&msg) }

func recv(s messages) ([]byte, error) {
	var msg []byte
	err := s.RecvMsg(&msg)
	return msg, err
}

// backend is a grpc-go server that responds by the method's name.
type backend struct {
	srv  *grpc.Server
	addr string

	mu      sync.Mutex
	calls   map[string]int // by the request's x-call-id
	last    metadata.MD    // of the last request
	left    chan error     // receives the error of the context that ended a Wait
	started chan struct{}  // receives when a Wait or Hold has begun
	release chan struct{}  // closed to let Hold return
}

func newBackend(t testing.TB, opts ...grpc.ServerOption) *backend {
	b := serveBackend(t, check.Listen(t), opts...)
	return b
}

func serveBackend(t testing.TB, ln net.Listener, opts ...grpc.ServerOption) *backend {
	b := &backend{
		addr: ln.Addr().String(), calls: map[string]int{},
		left: make(chan error, 4000), started: make(chan struct{}, 4000), release: make(chan struct{}),
	}
	b.srv = grpc.NewServer(append(opts, grpc.ForceServerCodec(rawCodec{}), grpc.UnknownServiceHandler(b.serve),
		grpc.MaxRecvMsgSize(64<<20), grpc.MaxHeaderListSize(1<<20))...)
	go func() { _ = b.srv.Serve(ln) }()
	check.Cleanup(t, b.srv.Stop)
	return b
}

func (b *backend) count(id string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.calls[id]
}

func (b *backend) lastMD() metadata.MD {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.last
}

func (b *backend) serve(_ any, s grpc.ServerStream) error {
	method, _ := grpc.MethodFromServerStream(s)
	md, _ := metadata.FromIncomingContext(s.Context())
	b.mu.Lock()
	b.last = md
	for _, id := range md.Get("x-call-id") {
		b.calls[id]++
	}
	b.mu.Unlock()
	switch _, name, _ := strings.Cut(method[1:], "/"); name {
	case "Echo": // every message, at once
		return echo(s)
	case "Collect": // all messages as one
		return collect(s)
	case "Count": // request: "messages size"
		return count(s)
	case "Fail":
		st, _ := status.FromProto(&spb.Status{Code: int32(codes.FailedPrecondition), Message: "né %\n"}).
			WithDetails(durationpb.New(time.Minute), &anypb.Any{TypeUrl: "x"})
		return st.Err()
	case "Wait":
		b.started <- struct{}{}
		<-s.Context().Done()
		b.left <- s.Context().Err()
		return status.FromContextError(s.Context().Err()).Err()
	case "Hold": // ignores its deadline
		b.started <- struct{}{}
		<-b.release
		return send(s, nil)
	case "Meta":
		if err := s.SendHeader(prefixed("head-", md)); err != nil {
			return err
		}
		s.SetTrailer(prefixed("tail-", md))
		return echo(s)
	}
	return status.Error(codes.Unimplemented, method)
}

func echo(s grpc.ServerStream) error {
	for {
		msg, err := recv(s)
		if err != nil {
			return endOf(err)
		}
		if err := send(s, msg); err != nil {
			return err
		}
	}
}

func collect(s grpc.ServerStream) error {
	var all []byte
	for {
		msg, err := recv(s)
		if errors.Is(err, io.EOF) {
			return send(s, all)
		}
		if err != nil {
			return err
		}
		all = append(all, msg...)
	}
}

func count(s grpc.ServerStream) error {
	msg, err := recv(s)
	if err != nil {
		return err
	}
	var n, size int
	if _, err := fmt.Sscan(string(msg), &n, &size); err != nil {
		return err
	}
	for i := range n {
		if err := send(s, pattern(i, size)); err != nil {
			return err
		}
	}
	return nil
}

func endOf(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

func prefixed(prefix string, md metadata.MD) metadata.MD {
	out := metadata.MD{}
	for name, values := range md {
		if strings.HasPrefix(name, "x-") {
			out[prefix+name] = values
		}
	}
	return out
}

// pattern returns n bytes that identify the seed and their offset.
func pattern(seed, n int) []byte {
	p := make([]byte, 0, n)
	for len(p) < n {
		from := noise[(seed*4099+len(p))%len(noise):]
		p = append(p, from[:min(n-len(p), len(from))]...)
	}
	return p
}

// noise has a prime length, so that it does not repeat at the ends of frames and windows.
var noise = func() []byte {
	b := make([]byte, 65521)
	_, _ = rand.NewChaCha8([32]byte{}).Read(b) // never fails
	return b
}()

func (f *forwarder) Exceeded(*relay.Stream, relay.Failure) bool { return !get(f, &f.let) }
