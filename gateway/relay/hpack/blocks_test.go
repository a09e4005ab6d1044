package hpack_test

import (
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	xnet "golang.org/x/net/http2/hpack"

	"github.com/capgate/capgate/gateway/relay/hpack"
	"github.com/capgate/capgate/internal/testkit/check"
)

const roomy = 1 << 20 // a maxList that test blocks do not exceed by accident

// nv is a field as tests write it.
type nv struct {
	name, value string
	sensitive   bool
}

func (f nv) String() string {
	if f.sensitive {
		return fmt.Sprintf("%q: %q (sensitive)", f.name, f.value)
	}
	return fmt.Sprintf("%q: %q", f.name, f.value)
}

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.NewReplacer(" ", "", "\n", "", "\t", "").Replace(s))
	check.Must(t, err)
	return b
}

func fieldsOf(l *hpack.List) []nv {
	var out []nv
	for i := range l.Fields {
		f := &l.Fields[i]
		out = append(out, nv{f.Name, f.Value, f.Sensitive})
	}
	return out
}

func fieldsOfX(fs []xnet.HeaderField) []nv {
	var out []nv
	for _, f := range fs {
		out = append(out, nv{f.Name, f.Value, f.Sensitive})
	}
	return out
}

// xEncoder is the encoder that grpc-go uses.
type xEncoder struct {
	*xnet.Encoder
	buf strings.Builder
}

func newXEncoder() *xEncoder {
	e := new(xEncoder)
	e.Encoder = xnet.NewEncoder(&e.buf)
	return e
}

func (e *xEncoder) block(fields ...nv) []byte {
	e.buf.Reset()
	for _, f := range fields {
		// A strings.Builder never fails.
		_ = e.WriteField(xnet.HeaderField{Name: f.name, Value: f.value, Sensitive: f.sensitive})
	}
	return []byte(e.buf.String())
}

// request returns the header of a grpc-go client, with two fields that differ per call.
func request(call int) []nv {
	return []nv{
		{name: ":method", value: "POST"},
		{name: ":scheme", value: "http"},
		{name: ":path", value: "/selu.capability.v1.Capability/Invoke"},
		{name: ":authority", value: "weather.caps.example.com:8080"},
		{name: "content-type", value: "application/grpc"},
		{name: "user-agent", value: "grpc-go/1.85.0"},
		{name: "te", value: "trailers"},
		{name: "x-capability-id", value: "weather"},
		{name: "grpc-timeout", value: timeout(call)},
		{name: "x-request-id", value: requestID(call)},
	}
}

func timeout(call int) string { return itoa(19_000_000+uint64(call)*7919%999_983) + "u" }

func requestID(call int) string {
	const digits = "0123456789abcdef"
	x := uint64(call)*0x9e3779b97f4a7c15 + 0x1234567
	b := []byte("xxxxxxxx-xxxx-4xxx-axxx-xxxxxxxxxxxx")
	for i := range b {
		if b[i] == 'x' {
			x ^= x << 13
			x ^= x >> 7
			x ^= x << 17
			b[i] = digits[x>>60]
		}
	}
	return string(b)
}

func itoa(n uint64) string {
	var b [20]byte
	i := len(b)
	for {
		i--
		b[i] = byte('0' + n%10)
		if n /= 10; n == 0 {
			return string(b[i:])
		}
	}
}

var (
	responseHeaders = []nv{
		{name: ":status", value: "200"},
		{name: "content-type", value: "application/grpc"},
	}
	responseTrailers = []nv{
		{name: "grpc-status", value: "0"},
		{name: "grpc-message", value: ""},
	}
)

// trace returns blocks that can be decoded again and again. The first block empties the table.
func trace(calls int, block func(call int) []nv) [][]byte {
	e := newXEncoder()
	e.SetMaxDynamicTableSize(0)
	e.SetMaxDynamicTableSize(4096)
	blocks := make([][]byte, calls)
	for i := range blocks {
		blocks[i] = e.block(block(i)...)
	}
	return blocks
}
