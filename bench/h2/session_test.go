package h2_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"

	"golang.org/x/net/http2/hpack"

	"github.com/capgate/capgate/bench/h2"
	"github.com/capgate/capgate/internal/testkit/check"
)

// recorder records the events of a session.
type recorder struct {
	session *h2.Session
	headers []h2.Headers
	data    map[uint32]int
	ended   int
	resets  int
	reply   func(st *h2.Stream)
}

func (r *recorder) Headers(st *h2.Stream, h h2.Headers, end bool) error {
	r.headers = append(r.headers, h)
	return r.end(st, end)
}

func (r *recorder) Data(st *h2.Stream, p []byte, end bool) error {
	if r.data == nil {
		r.data = map[uint32]int{}
	}
	r.data[st.ID] += len(p)
	return r.end(st, end)
}

func (r *recorder) end(st *h2.Stream, end bool) error {
	if end {
		r.ended++
		if r.reply != nil {
			r.reply(st)
		}
	}
	return nil
}

func (r *recorder) Reset(*h2.Stream, uint32) error {
	r.resets++
	return nil
}

func newSession(cfg h2.Config) *recorder {
	r := &recorder{}
	r.session = h2.NewSession(cfg, r)
	return r
}

// exchange moves bytes between two sessions, in pieces of random size, until both have no output.
func exchange(t *testing.T, rng *rand.Rand, a, b *recorder) {
	t.Helper()
	for {
		moved := deliver(t, rng, a, b) + deliver(t, rng, b, a)
		if moved == 0 {
			return
		}
	}
}

func deliver(t *testing.T, rng *rand.Rand, from, to *recorder) int {
	t.Helper()
	from.session.Pump()
	out := bytes.Clone(from.session.Out)
	from.session.Out = from.session.Out[:0]
	for rest := out; len(rest) > 0; {
		n := 1 + rng.IntN(min(len(rest), 40000))
		if rng.IntN(2) == 0 {
			n = 1 + rng.IntN(min(len(rest), 12))
		}
		check.Must(t, to.session.Feed(rest[:n]))
		rest = rest[n:]
	}
	return len(out)
}

// TestBodiesArriveThroughAnyWindows: every byte arrives and every stream ends once, with windows and reads of any size.
func TestBodiesArriveThroughAnyWindows(t *testing.T) {
	t.Parallel()
	for seed := range uint64(30) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(seed, 1))
			client := newSession(h2.Config{Client: true, StreamWindow: 1 + rng.IntN(100000), ConnWindow: 65535 +
				rng.IntN(1<<20)})
			server := newSession(h2.Config{StreamWindow: 1 + rng.IntN(100000), ConnWindow: 65535 + rng.IntN(1<<20)})
			ok := server.session.Field(":status", "200")
			server.session.Trailers(server.session.Field("grpc-status", "0"))
			answer := make([]byte, rng.IntN(50000)+1)
			count := 1 + rng.IntN(20)
			server.reply = func(st *h2.Stream) {
				server.session.Reply(st, []int{ok}, h2.Body{Msg: answer, Count: count, Last: answer[:1]})
			}
			path := client.session.Field(":path", "/a/b")
			exchange(t, rng, client, server)
			request := make([]byte, rng.IntN(50000)+1)
			const streams = 10
			for i := range streams {
				client.session.Open([]int{path}, strconv.Itoa(i)+"S", h2.Body{Msg: request, Count: 3})
			}
			exchange(t, rng, client, server)
			if server.ended != streams || client.ended != streams || client.resets+server.resets != 0 {
				t.Fatalf("%d requests and %d responses ended, want %d", server.ended, client.ended, streams)
			}
			for id, n := range server.data {
				if n != 3*len(request) {
					t.Errorf("stream %d received %d bytes, want %d", id, n, 3*len(request))
				}
				if want := len(answer)*(count-1) + 1; client.data[id] != want {
					t.Errorf("stream %d answered %d bytes, want %d", id, client.data[id], want)
				}
			}
			if client.session.Streams()+server.session.Streams() != 0 {
				t.Errorf("streams are left: %d, %d", client.session.Streams(), server.session.Streams())
			}
		})
	}
}

// blocks extracts the header blocks from the output of a session.
func blocks(t *testing.T, out []byte) [][]byte {
	t.Helper()
	var found [][]byte
	out = bytes.TrimPrefix(out, []byte(h2.Preface))
	for len(out) >= 9 {
		size := int(binary.BigEndian.Uint32(out) >> 8)
		if out[3] == 1 {
			found = append(found, out[9:9+size])
		}
		out = out[9+size:]
	}
	return found
}

// TestEncodesLikeGRPCGo: the generator's header blocks are byte for byte those of grpc-go's encoder.
func TestEncodesLikeGRPCGo(t *testing.T) {
	t.Parallel()
	fields := []hpack.HeaderField{
		{Name: ":method", Value: "POST"}, {Name: ":scheme", Value: "http"},
		{Name: ":path", Value: "/selu.capability.Capability/Invoke"},
		{Name: ":authority", Value: "127.0.0.1:8080"}, {Name: "content-type", Value: "application/grpc"},
		{Name: "user-agent", Value: "grpc-go/1.85.0"}, {Name: "te", Value: "trailers"},
	}
	for _, tableSize := range []uint32{4096, 300, 60, 0} {
		t.Run(fmt.Sprint(tableSize), func(t *testing.T) {
			t.Parallel()
			client := newSession(h2.Config{Client: true})
			var want bytes.Buffer
			enc := hpack.NewEncoder(&want)
			enc.SetMaxDynamicTableSizeLimit(tableSize)
			// SETTINGS_HEADER_TABLE_SIZE from the peer.
			settings := binary.BigEndian.AppendUint32([]byte{0, 0, 6, 4, 0, 0, 0, 0, 0, 0, 1}, tableSize)
			check.Must(t, client.session.Feed(settings))
			var handles []int
			for _, f := range fields {
				handles = append(handles, client.session.Field(f.Name, f.Value))
			}
			for i := range 500 {
				timeout := strconv.Itoa(9999990-i*37) + "u"
				client.session.Out = client.session.Out[:0]
				client.session.Open(handles, timeout, h2.Body{Msg: []byte("x"), Count: 1})
				want.Reset()
				for _, f := range append(fields[:len(fields):len(fields)],
					hpack.HeaderField{Name: "grpc-timeout", Value: timeout}) {
					check.Must(t, enc.WriteField(f))
				}
				if got := blocks(t, client.session.Out); len(got) != 1 || !bytes.Equal(got[0], want.Bytes()) {
					t.Fatalf("block %d is\n%x, grpc-go's\n%x", i, got, want.Bytes())
				}
			}
		})
	}
}

// headersFrame returns a HEADERS frame, or with CONTINUATION frames of at most size bytes each.
func headersFrame(stream uint32, block []byte, size int) []byte {
	var b []byte
	for kind := byte(1); ; kind = 9 {
		n := min(size, len(block))
		flags := byte(0)
		if n == len(block) {
			flags = 4
		}
		b = append(b, byte(n>>16), byte(n>>8), byte(n), kind, flags)
		b = binary.BigEndian.AppendUint32(b, stream)
		b = append(b, block[:n]...)
		if block = block[n:]; len(block) == 0 {
			return b
		}
	}
}

// A proxy's encoder may index any field, change its table, and split blocks.
func TestDecodesAnyEncoder(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(7, 7))
	server := newSession(h2.Config{})
	check.Must(t, server.session.Feed([]byte(h2.Preface)))
	var block bytes.Buffer
	enc := hpack.NewEncoder(&block)
	for i := range 3000 {
		block.Reset()
		if rng.IntN(20) == 0 {
			enc.SetMaxDynamicTableSize(uint32(rng.IntN(4097)))
		}
		path := "/service/" + strconv.Itoa(rng.IntN(30))
		fields := []hpack.HeaderField{
			{Name: ":method", Value: "POST"}, {Name: ":path", Value: path, Sensitive: rng.IntN(4) == 0},
			{Name: "x-" + strconv.Itoa(rng.IntN(50)), Value: fmt.Sprintf("%0*d", rng.IntN(300), i)},
			{Name: "grpc-timeout", Value: strconv.Itoa(i) + "m"},
		}
		for _, f := range fields {
			check.Must(t, enc.WriteField(f))
		}
		check.Must(t, server.session.Feed(headersFrame(uint32(2*i+1), block.Bytes(), 1+rng.IntN(200))))
		if got := server.headers[len(server.headers)-1].Path; got != path {
			t.Fatalf("block %d: path %q, want %q", i, got, path)
		}
	}
}

func BenchmarkCall(b *testing.B) {
	client, server := newSession(h2.Config{Client: true}), newSession(h2.Config{})
	path := client.session.Field(":path", h2.PathInvoke)
	ok := server.session.Field(":status", "200")
	server.session.Trailers(server.session.Field("grpc-status", "0"))
	answer := h2.Body{Msg: h2.InvokeResponse(1024), Count: 1}
	server.reply = func(st *h2.Stream) { server.session.Reply(st, []int{ok}, answer) }
	request := h2.Body{Msg: h2.InvokeRequest(h2.Work{Kind: h2.ReplyWork, Count: 1, Size: 1024}, "weather", "s", 1024),
		Count: 1}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		client.session.Open([]int{path}, strconv.Itoa(9999999-i%10000)+"u", request)
		move(b, client, server)
		move(b, server, client)
		server.headers, client.headers = server.headers[:0], client.headers[:0]
		clear(server.data)
		clear(client.data)
	}
}

func move(b *testing.B, from, to *recorder) {
	check.Must(b, to.session.Feed(from.session.Out))
	from.session.Out = from.session.Out[:0]
}
