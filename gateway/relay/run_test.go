package relay_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/rawhttp2"
)

// begun is a call whose response has begun, with both of its ends. The relay no longer keeps the request, and forwards
// short frames as they are.
type begun struct {
	*rawhttp2.Conn // the client's, with the call on stream 1
	back           rawPeer
	id             uint32 // the call's stream at the backend
}

// beginCall has the backend begin its response to a call with further headers.
func beginCall(t *testing.T, w *relayed, header ...string) begun {
	t.Helper()
	raw := w.rawBackend(t)
	c := rawClient(t, w.addr)
	check.Must(t, c.Write(rawhttp2.Headers(1, false, c.Block(request("/t.T/Echo", header...)...))))
	p := raw.accept(t, rawhttp2.Setting{ID: rawhttp2.InitialWindowSize, Value: 1 << 20})
	id := p.head(t)
	check.Must(t, p.Write(rawhttp2.WindowUpdate(0, 1<<20),
		rawhttp2.Headers(id, false, p.Block(":status", "200", "content-type", "application/grpc"))))
	f, err := c.Wait(func(f rawhttp2.Frame) bool { return f.Type == rawhttp2.TypeHeaders })
	check.Must(t, err)
	_, err = c.Fields(f.Payload)
	check.Must(t, err)
	return begun{c, p, id}
}

// gets returns the number of bytes that the backend receives until the call is reset or the request ends.
func (b begun) gets(t *testing.T) (n int) {
	t.Helper()
	_, err := b.back.Wait(func(f rawhttp2.Frame) bool {
		if f.Type == rawhttp2.TypeData {
			n += len(f.Payload)
		}
		return f.Type == rawhttp2.TypeReset || f.Type == rawhttp2.TypeData && f.Has(rawhttp2.EndStream)
	})
	check.Must(t, err)
	return n
}

// TestShortFramesFollowTheRules: a protocol error in a short frame ends the stream, and the frame is not forwarded.
func TestShortFramesFollowTheRules(t *testing.T) {
	t.Parallel()
	short := func(text string) rawhttp2.Frame { return rawhttp2.Data(1, false, []byte(text)) }
	for name, test := range map[string]struct {
		header []string
		say    func(*rawhttp2.Conn) []rawhttp2.Frame
		typ    byte // of the frame that the client gets
		code   uint32
		gets   int // bytes that the backend receives
	}{
		"after the end": {
			say: func(*rawhttp2.Conn) []rawhttp2.Frame {
				return []rawhttp2.Frame{rawhttp2.Data(1, true, []byte("end")), short("more")}
			},
			typ: rawhttp2.TypeReset, code: rawhttp2.StreamClosed, gets: 3, // up to the request's end
		},
		"more than was announced": {
			header: []string{"content-length", "8"},
			say:    func(*rawhttp2.Conn) []rawhttp2.Frame { return []rawhttp2.Frame{short("12345"), short("6789")} },
			typ:    rawhttp2.TypeReset, code: rawhttp2.ProtocolError, gets: 5,
		},
		"beyond a window that is given back slowly": {
			say: func(*rawhttp2.Conn) (all []rawhttp2.Frame) {
				for range 70 {
					all = append(all, short(strings.Repeat("x", 1000)))
				}
				return all
			},
			typ: rawhttp2.TypeReset, code: rawhttp2.FlowControlError, gets: 65_000,
		},
		"within a header block": {
			say: func(c *rawhttp2.Conn) []rawhttp2.Frame {
				return []rawhttp2.Frame{{Type: rawhttp2.TypeHeaders, Flags: rawhttp2.EndStream, Stream: 1,
					Payload: c.Block("x-trailer", "y")}, short("x")}
			},
			typ: rawhttp2.TypeGoAway, code: rawhttp2.ProtocolError,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newRelayed(t, relay.Config{})
			g := w.NewGroup(nil, nil)
			g.SetRate(1, false)
			w.h.onHeaders(func(s *relay.Stream) {
				s.Join(g)
				s.Forward(w.h.target())
			})
			b := beginCall(t, w, test.header...)
			check.Must(t, b.Write(append(test.say(b.Conn), rawhttp2.Ping(7))...))
			f, err := b.Wait(func(f rawhttp2.Frame) bool {
				return f.Type == rawhttp2.TypeReset || f.Type == rawhttp2.TypeGoAway ||
					f.Type == rawhttp2.TypePing && f.Has(rawhttp2.Ack)
			})
			check.Must(t, err)
			if f.Type != test.typ || f.Code() != test.code {
				t.Fatalf("answered with %v", f)
			}
			if n := b.gets(t); n != test.gets {
				t.Errorf("the backend got %d bytes, not %d", n, test.gets)
			}
		})
	}
}

// TestShortMessagesAreCounted: messages in short frames count against the limits, with their prefixes, in both
// directions.
func TestShortMessagesAreCounted(t *testing.T) {
	t.Parallel()
	message := rawhttp2.Message([]byte("short"))
	const most = 10
	for name, l := range map[string]relay.Limits{
		"messages": {Messages: most},
		"bytes":    {Bytes: int64(most * len(message))},
	} {
		for _, up := range []bool{true, false} {
			t.Run(name+map[bool]string{true: " up", false: " down"}[up], func(t *testing.T) {
				t.Parallel()
				w := newRelayed(t, relay.Config{})
				w.h.onHeaders(func(s *relay.Stream) {
					s.Limit(l)
					s.Forward(w.h.target())
				})
				b := beginCall(t, w)
				from, id := b.Conn, uint32(1)
				if !up {
					from, id = b.back.Conn, b.id
				}
				var all []rawhttp2.Frame
				for range most + 1 {
					all = append(all, rawhttp2.Data(id, false, message))
				}
				check.Must(t, from.Write(append(all, rawhttp2.Data(id, true, nil))...))
				if up {
					if n := b.gets(t); n != most*len(message) {
						t.Fatalf("the backend got %d bytes", n)
					}
				}
				r, err := b.WaitResponse(1)
				check.Must(t, err)
				if want := bytes.Repeat(message, most); r.Status() != "8" || !up && !bytes.Equal(r.Body, want) {
					t.Errorf("%v", r)
				}
			})
		}
	}
}

// TestTapOfShortFrames: a Tap receives the octets of short frames too.
func TestTapOfShortFrames(t *testing.T) {
	t.Parallel()
	w := newRelayed(t, relay.Config{})
	var tap recorder
	w.h.onHeaders(func(s *relay.Stream) { s.TapResponse(&tap); s.Forward(w.h.target()) })
	b := beginCall(t, w)
	var want []byte
	for i := range 20 {
		message := rawhttp2.Message(pattern(i, 100))
		want = append(want, message...)
		check.Must(t, b.back.Write(rawhttp2.Data(b.id, false, message)))
	}
	check.Must(t, b.back.Write(rawhttp2.Headers(b.id, true, b.back.Block("grpc-status", "0"))))
	if r, err := b.WaitResponse(1); err != nil || !bytes.Equal(r.Body, want) {
		t.Errorf("%v, %v", r, err)
	}
	w.h.results(t, 1)
	if !bytes.Equal(tap.Bytes(), want) {
		t.Errorf("%d bytes were seen of %d", tap.Len(), len(want))
	}
}

// TestOnlyMessageIsFollowed: a second message ends a call of only one message, however late it arrives, and is not
// forwarded.
func TestOnlyMessageIsFollowed(t *testing.T) {
	t.Parallel()
	w := newRelayed(t, relay.Config{Forwarding: relay.Forwarding{MaxReplay: 1000}})
	w.h.onHeaders((*relay.Stream).ReadOnlyMessage)
	raw := w.rawBackend(t)
	c := rawClient(t, w.addr)
	message := rawhttp2.Message(pattern(1, 3000)) // too long to be kept for a retry
	check.Must(t, c.Write(rawhttp2.Headers(1, false, c.Block(request("/t.T/Echo")...)),
		rawhttp2.Data(1, false, message)))
	b := begun{c, raw.accept(t), 0}
	b.id = b.back.head(t)
	got := 0
	_, err := b.back.Wait(func(f rawhttp2.Frame) bool {
		if f.Type == rawhttp2.TypeData {
			got += len(f.Payload)
		}
		return got >= len(message)
	})
	check.Must(t, err)
	check.Must(t, c.Write(rawhttp2.Data(1, false, []byte{0}), rawhttp2.Data(1, true, nil)))
	if n := b.gets(t); n != 0 || got != len(message) {
		t.Fatalf("the backend got %d bytes, and then %d", got, n)
	}
	r, err := c.WaitResponse(1)
	check.Must(t, err)
	if message := r.Header["grpc-message"]; message != "relay: AMBIGUOUS_MESSAGE" {
		t.Errorf("%v", r)
	}
}
