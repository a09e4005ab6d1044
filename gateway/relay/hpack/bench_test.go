package hpack_test

import (
	"testing"

	xnet "golang.org/x/net/http2/hpack"

	"github.com/capgate/capgate/gateway/relay/hpack"
	"github.com/capgate/capgate/internal/testkit/check"
)

const benchCalls = 4096

func plainRequest(call int) []nv { return request(call)[:9] }
func idRequest(call int) []nv    { return request(call) }
func tracedRequest(call int) []nv {
	id := requestID(call)
	return append(request(call), nv{name: "traceparent",
		value: "00-" + id[:8] + id[9:13] + id[14:18] + id[19:23] + id[24:] + "-" + id[:8] + id[9:13] + "0000-01"})
}
func response(call int) []nv {
	if call%2 == 0 {
		return responseHeaders
	}
	return responseTrailers
}

var benchBlocks = []struct {
	name  string
	block func(int) []nv
}{
	{"request9", plainRequest},
	{"request10id", idRequest},
	{"request11traced", tracedRequest},
	{"response", response},
}

func BenchmarkDecode(b *testing.B) {
	for _, c := range benchBlocks {
		b.Run(c.name, func(b *testing.B) {
			blocks := trace(benchCalls, c.block)
			d := hpack.NewDecoder(hpack.NewInterner(classify), 4096)
			var l hpack.List
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				l.Reset()
				check.Must(b, d.Decode(blocks[i%benchCalls], &l, roomy))
			}
		})
	}
}

func BenchmarkDecodeXNet(b *testing.B) {
	for _, c := range benchBlocks {
		b.Run(c.name, func(b *testing.B) {
			blocks := trace(benchCalls, c.block)
			d := xnet.NewDecoder(4096, func(xnet.HeaderField) {})
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if _, err := d.Write(blocks[i%benchCalls]); err != nil {
					b.Fatal(err)
				}
				_ = d.Close()
			}
		})
	}
}

func BenchmarkEncode(b *testing.B) {
	for _, c := range benchBlocks {
		b.Run(c.name, func(b *testing.B) {
			d := hpack.NewDecoder(hpack.NewInterner(classify), 4096)
			lists := make([]hpack.List, 64)
			for i, block := range trace(2*len(lists), c.block) {
				l := &lists[i%len(lists)]
				l.Reset()
				check.Must(b, d.Decode(block, l, roomy))
			}
			e := hpack.NewEncoder()
			buf := make([]byte, 0, 1024)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				l := &lists[i%len(lists)]
				buf = e.Begin(buf[:0])
				for j := range l.Fields {
					buf = e.Encode(buf, &l.Fields[j])
				}
			}
			b.ReportMetric(float64(len(buf)), "bytes/block")
		})
	}
}

// BenchmarkHuffman shows why the Encoder does not use the Huffman code.
func BenchmarkHuffman(b *testing.B) {
	id := requestID(1)
	b.Run("encode", func(b *testing.B) {
		buf := make([]byte, 0, 64)
		for b.Loop() {
			buf = xnet.AppendHuffmanString(buf[:0], id)
		}
	})
	b.Run("copy", func(b *testing.B) {
		buf := make([]byte, 0, 64)
		for b.Loop() {
			buf = append(buf[:0], id...)
		}
	})
}

// classify is a classifier like that of a proxy.
func classify(name, _ string) uint32 {
	switch name {
	case ":path":
		return 1
	case ":authority":
		return 2
	case "grpc-timeout":
		return 3
	case "content-type":
		return 4
	case "te":
		return 5
	case "x-capability-id":
		return 6
	}
	return 0
}
