package relay_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/testkit/check"
)

// handlers returns the ways in which a Handler forwards a call: at once, after its first message, or after another
// goroutine has decided.
func handlers() map[string]func(*forwarder) {
	return map[string]func(*forwarder){
		"forward": func(*forwarder) {},
		"read":    func(f *forwarder) { f.onHeaders((*relay.Stream).ReadMessage) },
		"park": func(f *forwarder) {
			f.onHeaders((*relay.Stream).ReadMessage)
			f.onMessage(func(s *relay.Stream, _ relay.Message) {
				p := s.Park()
				go p.Resume(func(s *relay.Stream) { s.Forward(f.target()) })
			})
		},
	}
}

// TestEveryKind sends messages of all sizes in both directions through every kind of call.
func TestEveryKind(t *testing.T) {
	t.Parallel()
	for name, prepare := range handlers() {
		for _, opts := range [][]grpc.CallOption{nil, {grpc.UseCompressor("gzip")}} {
			t.Run(fmt.Sprint(name, len(opts)), func(t *testing.T) {
				t.Parallel()
				w := newRelayed(t, relay.Config{HTTP2: relay.HTTP2{MaxFirstMessage: 6 << 20}})
				prepare(w.h)
				for _, size := range []int{0, 1, 100, 16<<10 - 5, 16 << 10, 65535, 1 << 20, 5 << 20} {
					if opts != nil && size > 100_000 {
						break // compressing it takes longer than all the rest
					}
					w.everyKind(t, size, opts...)
				}
			})
		}
	}
}

func (w *relayed) everyKind(t *testing.T, size int, opts ...grpc.CallOption) {
	msg := pattern(1, size)
	got, err := unary(w.ctx, w.cc, "Echo", msg, opts...)
	if err != nil || !bytes.Equal(got, msg) {
		t.Fatalf("unary, %d bytes: %d bytes, %v", size, len(got), err)
	}
	n := 3
	if size > 1<<20 {
		n = 1
	}
	up := stream(w.ctx, t, w.cc, "Collect", opts...)
	for range n {
		check.Must(t, send(up, msg))
	}
	check.Must(t, up.CloseSend())
	if got, err := recv(up); err != nil || !bytes.Equal(got, bytes.Repeat(msg, n)) {
		t.Fatalf("client stream of %d bytes: %d bytes, %v", size, len(got), err)
	}
	down := stream(w.ctx, t, w.cc, "Count", opts...)
	check.Must(t, send(down, fmt.Appendf(nil, "%d %d", n, size)))
	check.Must(t, down.CloseSend())
	for i := range n {
		if got, err := recv(down); err != nil || !bytes.Equal(got, pattern(i, size)) {
			t.Fatalf("server stream of %d bytes: %d bytes, %v", size, len(got), err)
		}
	}
	wantEOF(t, down)
	both := stream(w.ctx, t, w.cc, "Echo", opts...)
	for range n {
		check.Must(t, send(both, msg))
		if got, err := recv(both); err != nil || !bytes.Equal(got, msg) {
			t.Fatalf("both ways, %d bytes: %d bytes, %v", size, len(got), err)
		}
	}
	check.Must(t, both.CloseSend())
	wantEOF(t, both)
}

func wantEOF(t testing.TB, s grpc.ClientStream) {
	t.Helper()
	if _, err := recv(s); !errors.Is(err, io.EOF) {
		t.Fatalf("%v, not the end", err)
	}
}

// TestManyStreams opens 1,000 streams on one connection.
func TestManyStreams(t *testing.T) {
	t.Parallel()
	w := newRelayed(t, relay.Config{})
	var all sync.WaitGroup
	open := make(chan struct{}, 1000)
	proceed := make(chan struct{})
	for i := range 1000 {
		all.Go(func() {
			msg := pattern(i, i)
			s, err := w.cc.NewStream(w.ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, "/t.T/Echo")
			for err == nil && len(msg) < 10000 {
				if err = send(s, msg); err != nil {
					break
				}
				got, rerr := recv(s)
				if err = rerr; !bytes.Equal(got, msg) {
					err = fmt.Errorf("call %d: another message came back: %w", i, err)
				}
				if len(msg) == i {
					open <- struct{}{}
					<-proceed
				}
				msg = append(msg, pattern(i, 5000)...)
			}
			if err == nil {
				_ = s.CloseSend()
				if _, err = recv(s); errors.Is(err, io.EOF) {
					return
				}
			}
			t.Errorf("call %d: %v", i, err)
		})
	}
	for range 1000 {
		check.Received(t, open, "the open call")
	}
	if u := w.Usage(); u.Clients != 1 || u.Streams != 1000 {
		t.Errorf("%+v", u)
	}
	close(proceed)
	all.Wait()
	w.h.results(t, 1000)
}

// TestMetadataArrivesInOrder: metadata arrives in order, including repeated keys and binary values.
func TestMetadataArrivesInOrder(t *testing.T) {
	t.Parallel()
	w := newRelayed(t, relay.Config{})
	bin := string(pattern(3, 300))
	md := metadata.Pairs("x-a", "1", "x-b-bin", bin, "x-a", "2", "x-b-bin", "\x00", "x-a", "3", "x-empty", "",
		"x-b-bin", "")
	var head, tail metadata.MD
	if _, err := unary(metadata.NewOutgoingContext(w.ctx, md), w.cc, "Meta", nil, grpc.Header(&head),
		grpc.Trailer(&tail)); err != nil {
		t.Fatal(err)
	}
	for name, want := range md {
		for where, got := range map[string][]string{"request": w.back.lastMD()[name], "headers": head["head-"+name],
			"trailers": tail["tail-"+name]} {
			if fmt.Sprintf("%q", got) != fmt.Sprintf("%q", want) {
				t.Errorf("%s in %s: %q, not %q", name, where, got, want)
			}
		}
	}
}

// TestLargeHeaders sends header lists longer than a frame in both directions.
func TestLargeHeaders(t *testing.T) {
	t.Parallel()
	w := newRelayed(t, relay.Config{})
	for _, size := range []int{16 << 10, 20 << 10, 50 << 10} {
		var head, tail metadata.MD
		want := strings.Repeat("é", size/2)
		ctx := metadata.AppendToOutgoingContext(w.ctx, "x-long-bin", want[:size*5/8])
		if _, err := unary(ctx, w.cc, "Meta", nil, grpc.Header(&head), grpc.Trailer(&tail)); err != nil {
			t.Fatal(err)
		}
		want = want[:size*5/8]
		if head.Get("head-x-long-bin")[0] != want || tail.Get("tail-x-long-bin")[0] != want {
			t.Errorf("%d bytes: another value came back", size)
		}
	}
	ctx := metadata.AppendToOutgoingContext(w.ctx, "x-long", strings.Repeat("x", 70<<10))
	if _, err := unary(ctx, w.cc, "Meta", nil); err == nil {
		t.Error("a header list of 70 KiB was taken")
	}
	if _, err := unary(w.ctx, w.cc, "Echo", nil); err != nil {
		t.Errorf("after it: %v", err)
	}
}

// TestChangingHeaders: the header tables on all four sides fill, evict and are rebuilt.
func TestChangingHeaders(t *testing.T) {
	t.Parallel()
	w := newRelayed(t, relay.Config{})
	for i := range 3000 {
		// Some fields repeat for a while, some occur once, some are long.
		md := metadata.Pairs("x-slow", fmt.Sprint(i/100), "x-cycle", fmt.Sprint(i%90), "x-new", fmt.Sprint(i),
			fmt.Sprintf("x-name-%d", i%200), "v", "x-long", strings.Repeat("l", i%1500))
		var head, tail metadata.MD
		if _, err := unary(metadata.NewOutgoingContext(t.Context(), md), w.cc, "Meta", nil, grpc.Header(&head),
			grpc.Trailer(&tail)); err != nil {
			t.Fatal(err)
		}
		for name, want := range md {
			if head["head-"+name][0] != want[0] || tail["tail-"+name][0] != want[0] {
				t.Fatalf("call %d: %s is %q and %q, not %q", i, name, head["head-"+name], tail["tail-"+name], want)
			}
		}
	}
}

// TestStatus: a backend's status passes unchanged, with its details.
func TestStatus(t *testing.T) {
	t.Parallel()
	w := newRelayed(t, relay.Config{})
	direct := dialRaw(t, w.back.addr)
	_, want := unary(w.ctx, direct, "Fail", nil)
	_, got := unary(w.ctx, w.cc, "Fail", nil)
	if status.Code(want) != codes.FailedPrecondition ||
		status.Convert(got).Proto().String() != status.Convert(want).Proto().String() {
		t.Errorf("%v, not %v", got, want)
	}
	if _, err := unary(w.ctx, w.cc, "Nothing", nil); status.Code(err) != codes.Unimplemented ||
		status.Convert(err).Message() != "/t.T/Nothing" {
		t.Errorf("unknown method: %v", err)
	}
	done := w.h.results(t, 2)
	if r := done[0]; !r.Upstream || r.Code != uint32(codes.FailedPrecondition) || r.Failure != relay.NoFailure {
		t.Errorf("result %+v", r)
	}
}

// TestResult checks the Result of an ordinary call.
func TestResult(t *testing.T) {
	t.Parallel()
	w := newRelayed(t, relay.Config{})
	if _, err := unary(context.Background(), w.cc, "Echo", pattern(0, 1000)); err != nil {
		t.Fatal(err)
	}
	r := w.h.results(t, 1)[0]
	if r.Code != 0 || !r.Upstream || r.BytesIn != 1005 || r.BytesOut != 1005 || r.Started.IsZero() ||
		r.Forwarded <= 0 || r.FirstByte < r.Forwarded || r.Ended < r.FirstByte {
		t.Errorf("%+v", r)
	}
}
