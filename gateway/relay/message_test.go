package relay_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/rawhttp2"
)

// prefixOf returns a message's five-byte prefix.
func prefixOf(flag byte, n int) []byte {
	return binary.BigEndian.AppendUint32([]byte{flag}, uint32(n))
}

// TestReadMessage reads first messages that come in pieces of all sizes.
func TestReadMessage(t *testing.T) {
	t.Parallel()
	body := append(rawhttp2.Message(pattern(7, 300)), rawhttp2.Message([]byte("second"))...)
	for _, size := range []int{1, 2, 4, 5, 6, 100, 304, 305, 306, len(body)} {
		for _, pad := range []bool{false, true} {
			t.Run(fmt.Sprint(size, pad), func(t *testing.T) {
				t.Parallel()
				w := newRelayed(t, relay.Config{})
				w.h.onHeaders((*relay.Stream).ReadMessage)
				w.h.onMessage(func(s *relay.Stream, m relay.Message) {
					if m.Missing || m.Compressed || !bytes.Equal(m.Data, pattern(7, 300)) {
						t.Errorf("message %+v", m)
					}
					s.Forward(w.h.target())
				})
				c := rawClient(t, w.addr)
				check.Must(t, c.Write(rawhttp2.Headers(1, false, c.Block(request("/t.T/Collect")...))))
				for at := 0; at < len(body); at += size {
					end := min(at+size, len(body))
					f := rawhttp2.Data(1, end == len(body), body[at:end])
					if pad {
						f.Flags |= 0x8
						f.Payload = append(append([]byte{3}, f.Payload...), 0, 0, 0)
					}
					check.Must(t, c.Write(f))
					if size < 100 && at%50 == 0 {
						check.Must(t, c.Sync()) // the relay reads this frame by itself
					}
				}
				r, err := c.WaitResponse(1)
				check.Must(t, err)
				want := rawhttp2.Message(append(pattern(7, 300), "second"...))
				if r.Status() != "0" || !bytes.Equal(r.Body, want) {
					t.Errorf("%v", r)
				}
			})
		}
	}
}

// TestReadMessageBad: malformed or missing first messages end the call, or reach the Handler as such.
func TestReadMessageBad(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		body []byte
		end  bool
		want codes.Code // of the relay; 0 if the Handler's Message is called
		why  relay.Failure
	}{
		"missing":            {nil, true, 0, 0},
		"empty":              {prefixOf(0, 0), true, 0, 0},
		"compressed":         {append(prefixOf(1, 3), 1, 2, 3), true, 0, 0},
		"as long as allowed": {rawhttp2.Message(make([]byte, 1000)), true, 0, 0},
		"too long":           {prefixOf(0, 1001), false, codes.ResourceExhausted, relay.MessageTooLarge},
		"absurdly long":      {prefixOf(0, -1), false, codes.ResourceExhausted, relay.MessageTooLarge},
		"unknown flag":       {prefixOf(2, 0), false, codes.InvalidArgument, relay.MessageMalformed},
		"cut in the prefix":  {prefixOf(0, 0)[:4], true, codes.InvalidArgument, relay.MessageMalformed},
		"cut in the message": {append(prefixOf(0, 5), 1, 2, 3, 4), true, codes.InvalidArgument, relay.MessageMalformed},
		"never whole":        {append(prefixOf(0, 5), 1, 2, 3, 4), false, codes.Unavailable, relay.MessageTimeout},
		"never begun":        {nil, false, codes.Unavailable, relay.MessageTimeout},
	}
	for name, c := range cases {
		for _, split := range []bool{false, true} {
			t.Run(fmt.Sprint(name, " split ", split), func(t *testing.T) {
				t.Parallel()
				cfg := relay.Config{HTTP2: relay.HTTP2{MaxFirstMessage: 1000}}
				if c.why == relay.MessageTimeout {
					cfg.Timeouts.Setup = time.Second
				}
				w := newRelayed(t, cfg)
				w.h.onHeaders((*relay.Stream).ReadMessage)
				w.h.onMessage(func(s *relay.Stream, m relay.Message) {
					s.Reply(fmt.Appendf(nil, "%d %v %v", len(m.Data), m.Compressed, m.Missing))
				})
				raw := rawClient(t, w.addr)
				head := rawhttp2.Headers(1, c.end && c.body == nil, raw.Block(request("/t.T/Echo")...))
				check.Must(t, raw.Write(head))
				body := c.body
				if split && len(body) > 1 {
					check.Must(t, raw.Write(rawhttp2.Data(1, false, body[:1])))
					check.Must(t, raw.Sync())
					body = body[1:]
				}
				if c.body != nil {
					check.Must(t, raw.Write(rawhttp2.Data(1, c.end, body)))
				}
				r, err := raw.WaitResponse(1)
				check.Must(t, err)
				done := w.h.results(t, 1)[0]
				if done.Failure != c.why || r.Status() != fmt.Sprint(uint32(c.want)) {
					t.Errorf("%v, %+v", r, done)
				}
				n := max(len(c.body)-5, 0)
				if want := fmt.Sprintf("%d %v %v", n, name == "compressed", name == "missing"); c.want == 0 &&
					string(r.Body[5:]) != want {
					t.Errorf("%q, not %q", r.Body[5:], want)
				}
			})
		}
	}
}

// TestCompressedUntouched: a compressed body arrives octet by octet as it was sent.
func TestCompressedUntouched(t *testing.T) {
	t.Parallel()
	for name, prepare := range handlers() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newRelayed(t, relay.Config{})
			prepare(w.h)
			raw := w.rawBackend(t)
			c := rawClient(t, w.addr)
			// The body is not gzip at all: the relay must not decode it.
			body := append(append(prefixOf(1, 500), pattern(1, 500)...), append(prefixOf(0, 10), pattern(2, 10)...)...)
			check.Must(t, c.Write(rawhttp2.Headers(1, false,
				c.Block(request("/t.T/Echo", "grpc-encoding", "gzip", "grpc-accept-encoding", "gzip,br")...)),
				rawhttp2.Data(1, true, body)))
			p := raw.accept(t)
			f, err := p.Wait(func(f rawhttp2.Frame) bool { return f.Type == rawhttp2.TypeHeaders })
			check.Must(t, err)
			fields, err := p.Fields(f.Payload)
			check.Must(t, err)
			if fields["grpc-encoding"] != "gzip" || fields["grpc-accept-encoding"] != "gzip,br" ||
				fields["te"] != "trailers" {
				t.Errorf("%v", fields)
			}
			if got := p.body(t, f.Stream); !bytes.Equal(got, body) {
				t.Errorf("another body of %d bytes arrived", len(got))
			}
			check.Must(t, p.Write(
				rawhttp2.Headers(f.Stream, false, p.Block(":status", "200", "content-type", "application/grpc",
					"grpc-encoding", "gzip")),
				rawhttp2.Data(f.Stream, false, body), rawhttp2.Headers(f.Stream, true, p.Block("grpc-status", "0"))))
			r, err := c.WaitResponse(1)
			check.Must(t, err)
			if !bytes.Equal(r.Body, body) || r.Header["grpc-encoding"] != "gzip" {
				t.Errorf("%v", r)
			}
		})
	}
}

// TestReply: the Handler responds without a backend.
func TestReply(t *testing.T) {
	t.Parallel()
	w := newRelayed(t, relay.Config{})
	for _, size := range []int{0, 1, 65535, 3 << 20} {
		w.h.onHeaders(func(s *relay.Stream) { s.Reply(pattern(5, size)) })
		if got, err := unary(w.ctx, w.cc, "Echo", pattern(0, 100)); err != nil || !bytes.Equal(got, pattern(5, size)) {
			t.Errorf("%d bytes: %d bytes, %v", size, len(got), err)
		}
		s := stream(w.ctx, t, w.cc, "Echo") // the client sends no message
		if got, err := recv(s); err != nil || len(got) != size {
			t.Errorf("%d bytes: %d bytes, %v", size, len(got), err)
		}
		wantEOF(t, s)
	}
	for _, r := range w.h.results(t, 8) {
		if r.Code != 0 || r.Upstream || r.Forwarded != 0 {
			t.Errorf("%+v", r)
		}
	}
}

// TestRefuse: every callback can refuse a call with a status.
func TestRefuse(t *testing.T) {
	t.Parallel()
	details, err := anypb.New(&spb.Status{Message: "inner"})
	check.Must(t, err)
	want := &spb.Status{Code: int32(codes.PermissionDenied), Message: "n\u00e9 100% \r\n\x00\u65e5",
		Details: []*anypb.Any{details}}
	bin, err := proto.Marshal(want)
	check.Must(t, err)
	st := relay.Status{Code: uint32(want.Code), Message: want.Message, Details: bin}
	ways := map[string]func(*relayed){
		"headers": func(w *relayed) { w.h.onHeaders(func(s *relay.Stream) { s.Refuse(st) }) },
		"message": func(w *relayed) {
			w.h.onHeaders((*relay.Stream).ReadMessage)
			w.h.onMessage(func(s *relay.Stream, _ relay.Message) { s.Refuse(st) })
		},
		"unsent": func(w *relayed) {
			w.h.onUnsent(func(s *relay.Stream, _ error) { s.Refuse(st) })
			w.h.to(w.NewUpstream(relay.UpstreamConfig{Dial: func(context.Context) (net.Conn, error) {
				return nil, io.EOF
			}}))
		},
		"resumed": func(w *relayed) {
			w.h.onHeaders(func(s *relay.Stream) {
				p := s.Park()
				go p.Resume(func(s *relay.Stream) { s.Refuse(st) })
			})
		},
		"read after a park": func(w *relayed) {
			w.h.onHeaders(func(s *relay.Stream) {
				p := s.Park()
				go p.Resume((*relay.Stream).ReadMessage)
			})
			w.h.onMessage(func(s *relay.Stream, m relay.Message) {
				if !bytes.Equal(m.Data, pattern(0, 100_000)) {
					s.Refuse(relay.Status{Code: 13})
					return
				}
				s.Refuse(st)
			})
		},
	}
	for name, prepare := range ways {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newRelayed(t, relay.Config{})
			prepare(w)
			_, err := unary(w.ctx, w.cc, "Echo", pattern(0, 100_000))
			if got := status.Convert(err).Proto(); !proto.Equal(got, want) {
				t.Errorf("%v, not %v", got, want)
			}
			if r := w.h.results(t, 1)[0]; r.Code != st.Code || r.Upstream || r.Failure != 0 {
				t.Errorf("%+v", r)
			}
		})
	}
}

// TestParkedCancel resumes parked streams that have already ended.
func TestParkedCancel(t *testing.T) {
	t.Parallel()
	w := newRelayed(t, relay.Config{})
	parked := make(chan relay.Parked, 100)
	w.h.onHeaders(func(s *relay.Stream) { parked <- s.Park() })
	c := rawClient(t, w.addr)
	for i := range 100 {
		check.Must(t, c.Write(rawhttp2.Headers(uint32(2*i+1), true, c.Block(request("/t.T/Echo")...))))
	}
	var all []relay.Parked
	for range 100 {
		all = append(all, check.Received(t, parked, "the parked call"))
	}
	for i := range 50 {
		check.Must(t, c.Write(rawhttp2.Reset(uint32(2*i+1), 8)))
	}
	check.Must(t, c.Sync())
	for i, p := range all {
		told := make(chan bool, 2)
		p.Resume(func(s *relay.Stream) {
			if told <- s != nil; s != nil {
				s.Reply(nil)
			}
		})
		p.Resume(func(s *relay.Stream) { told <- s != nil })
		first, second := check.Received(t, told, "the notice"), check.Received(t, told, "the notice")
		if i >= 50 != (first || second) || first && second {
			t.Errorf("stream %d: resumed %v and %v", 2*i+1, first, second)
		}
	}
	w.h.results(t, 100)
	check.Must(t, wantUsage(w.Relay, relay.Usage{Clients: 1}))
}

// TestEdits checks a Handler's changes of a request.
func TestEdits(t *testing.T) {
	t.Parallel()
	w := newRelayed(t, relay.Config{})
	w.h.onHeaders(func(s *relay.Stream) {
		if s.Path() != "/t.T/Nothing" || s.Authority() == "" || s.Peer().Addr == nil {
			t.Errorf("%q %q %v", s.Path(), s.Authority(), s.Peer().Addr)
		}
		if v, ok := s.Header("x-a"); !ok || v != "1" {
			t.Errorf("x-a is %q; ok %+v", v, ok)
		}
		s.SetPath("/t.T/Meta")
		s.SetHeader("x-a", "lost")
		s.SetHeader("x-a", "set")
		s.SetHeader("x-new", "new")
		s.DropHeader("x-b")
		s.SetHeader("x-c", "lost")
		s.DropHeader("x-c")
		s.DropHeader("x-d")
		s.SetHeader("x-d", "set")
		s.Forward(w.h.target())
	})
	var head metadata.MD
	ctx := metadata.AppendToOutgoingContext(w.ctx, "x-a", "1", "x-a", "2", "x-b", "1", "x-c", "1", "x-d", "1", "x-e",
		"1")
	if _, err := unary(ctx, w.cc, "Nothing", nil, grpc.Header(&head)); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"x-a": "[set]", "x-b": "[]", "x-c": "[]", "x-d": "[set]", "x-e": "[1]",
		"x-new": "[new]"} {
		if got := fmt.Sprint(head["head-"+name]); got != want {
			t.Errorf("%s is %s, not %s", name, got, want)
		}
	}
}

// recorder is a Tap.
type recorder struct{ bytes.Buffer }

func (r *recorder) Body(p []byte) { _, _ = r.Write(p) }

// TestTap: a Tap receives the octets of the response.
func TestTap(t *testing.T) {
	t.Parallel()
	w := newRelayed(t, relay.Config{})
	var tap recorder
	w.h.onHeaders(func(s *relay.Stream) { s.TapResponse(&tap); s.Forward(w.h.target()) })
	if _, err := unary(w.ctx, w.cc, "Echo", pattern(3, 200_000)); err != nil {
		t.Fatal(err)
	}
	w.h.results(t, 1)
	if !bytes.Equal(tap.Bytes(), rawhttp2.Message(pattern(3, 200_000))) {
		t.Errorf("%d other bytes", tap.Len())
	}
}
