//go:build !race

package gateway_test

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/clientaddr"
	"github.com/capgate/capgate/internal/idempotency"
	"github.com/capgate/capgate/internal/ratelimit"
	"github.com/capgate/capgate/internal/telemetry/tracing"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	"github.com/capgate/capgate/internal/testkit/oteltest"
)

// wire is one end of an HTTP/2 connection. It implements just enough of the protocol and does not allocate: its
// header blocks are literals, which are not indexed.
type wire struct {
	conn net.Conn
	buf  []byte // of the last frame read
	out  []byte // frames to write
}

const (
	kindData, kindHeaders, kindSettings, kindPing = 0, 1, 4, 6
	ended, wholeBlock, acknowledged               = 1, 4, 1
)

func newWire(conn net.Conn) *wire { return &wire{conn: conn, buf: make([]byte, 9+16<<10)} }

// hello sends the settings and windows that are never used up.
func hello() []byte {
	b := frameOf(nil, kindSettings, 0, 0, []byte{0, 4, 0x3f, 0xff, 0xff, 0xff})
	return frameOf(b, 8, 0, 0, []byte{0x3f, 0, 0, 0})
}

func frameOf(b []byte, kind, flags byte, stream uint32, payload []byte) []byte {
	n := len(payload)
	b = append(b, byte(n>>16), byte(n>>8), byte(n), kind, flags)
	return append(binary.BigEndian.AppendUint32(b, stream), payload...)
}

// literal returns a header field that is not indexed.
func literal(b []byte, name, value string) []byte {
	return append(append(append(append(b, 0, byte(len(name))), name...), byte(len(value))), value...)
}

// ends reads frames until the peer ends a stream, and acknowledges those that require it.
func (w *wire) ends() (stream uint32, err error) {
	for {
		if _, err := io.ReadFull(w.conn, w.buf[:9]); err != nil {
			return 0, err
		}
		n := int(w.buf[0])<<16 | int(w.buf[1])<<8 | int(w.buf[2])
		kind, flags, stream := w.buf[3], w.buf[4], binary.BigEndian.Uint32(w.buf[5:])
		if _, err := io.ReadFull(w.conn, w.buf[9:9+n]); err != nil {
			return 0, err
		}
		switch {
		case (kind == kindSettings || kind == kindPing) && flags&acknowledged == 0:
			answer := w.buf[9 : 9+n]
			if kind == kindSettings {
				answer = nil
			}
			w.out = frameOf(w.out[:0], kind, acknowledged, 0, answer)
			if _, err := w.conn.Write(w.out); err != nil {
				return 0, err
			}
		case (kind == kindData || kind == kindHeaders) && flags&ended != 0:
			return stream, nil
		case kind == 3 || kind == 7:
			return 0, fmt.Errorf("a frame of kind %d: %q", kind, w.buf[9:9+n])
		}
	}
}

// answerCalls runs a backend.
func answerCalls(listener net.Listener) {
	conn, err := listener.Accept()
	if err != nil {
		return
	}
	defer conn.Close()
	w := newWire(conn)
	if _, err := io.ReadFull(conn, make([]byte, len(preface))); err != nil {
		return
	}
	_, _ = conn.Write(hello()) // reading notifies
	head := literal(literal(nil, ":status", "200"), "content-type", "application/grpc")
	last := literal(nil, "grpc-status", "0")
	var out []byte
	for {
		stream, err := w.ends()
		if err != nil {
			return
		}
		out = frameOf(out[:0], kindHeaders, wholeBlock, stream, head)
		out = frameOf(out, kindData, 0, stream, []byte("\x00\x00\x00\x00\x04\x0a\x02{}"))
		out = frameOf(out, kindHeaders, wholeBlock|ended, stream, last)
		if _, err := conn.Write(out); err != nil {
			return
		}
	}
}

const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

// TestACallWithEverythingAllocatesNothing: a call with a known API key, for a tenant with limits of every kind, counted
// and recorded, with an unsampled trace, behind a trusted proxy, allocates nothing. The gateway stores results of
// calls; the call has no idempotency key, whether or not its fleet accepts them. The test uses sockets. It is not
// parallel, since AllocsPerRun counts the allocations of all goroutines, and it does not run under the race detector,
// which allocates too.
func TestACallWithEverythingAllocatesNothing(t *testing.T) {
	for name, keyed := range map[string]bool{"a fleet without keys": false, "a fleet with idempotency keys": true} {
		t.Run(name, func(t *testing.T) { allocatesNothing(t, keyed) })
	}
}

func allocatesNothing(t *testing.T, keyed bool) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check.Must(t, err)
	served := make(chan struct{})
	go func() {
		defer close(served)
		answerCalls(listener)
	}()
	check.Cleanup(t, func() { // when the gateway has closed its connection
		_ = listener.Close()
		check.Received(t, served, "the end of serving")
	})
	id, secret := tenant.NewCredential()
	most := tenant.Bounds{CallsPerSecond: tenant.MaxCalls, Concurrent: 100_000, PerDay: tenant.MaxCalls,
		PerMonth: tenant.MaxCalls}
	all, err := tenant.ParseGrants([]string{"*"})
	check.Must(t, err)
	settings := &tenant.Settings{ID: "acme", Capabilities: all, Limits: tenant.Limits{Bounds: most}}
	keys := tenant.NewKeys(nil)
	keys.Replace([]tenant.Key{{ID: id, Tenant: "acme", Hash: tenant.HashOf(secret, nil), Scopes: tenant.Invoke,
		Asserts: tenant.User}}, map[string]*tenant.Settings{"acme": settings}, nil)
	// The timer must not fire meanwhile. No call is sampled.
	tracer, err := tracing.New(tracing.Config{Endpoint: oteltest.Start(t).Addr, Follow: true, Delay: time.Minute})
	check.Must(t, err)
	check.Cleanup(t, func() { tracer.Close(context.WithoutCancel(t.Context())) })
	g := gatewaytest.Start(t, gatewaytest.Options{
		Fleets: []gatewaytest.Fleet{{Capability: "caps", Dialect: call.Doc, Unprobed: true, Keyed: keyed,
			Backends: []string{listener.Addr().String()}}},
		Answers:    gatewaytest.Answers(t, gatewaytest.OpenStore(t, "embedded"), idempotency.Options{}),
		ClientAddr: clientaddr.New(clientaddr.Config{Trusted: loopback}), Authenticator: keys,
		Limits: ratelimit.New(ratelimit.Config{Store: gatewaytest.StartRedis(t).Open(t).Limits("a")}),
		Tracer: tracer,
	})
	conn, err := net.Dial("tcp", g.Addr)
	check.Must(t, err)
	defer conn.Close()
	patient := func() { _ = conn.SetDeadline(time.Now().Add(check.Patience)) } // enough for some hundred calls
	patient()
	w := newWire(conn)
	_, _ = conn.Write(append([]byte(preface), hello()...)) // reading notifies
	block := []byte(nil)
	for _, h := range [][2]string{
		{":method", "POST"}, {":scheme", "http"}, {":path", "/selu.capability.Capability/Invoke"},
		{":authority", "caps.example.com"}, {"content-type", "application/grpc"}, {"te", "trailers"},
		{"user-agent", "grpc-go/1.85.0"}, {"authorization", "Bearer " + tenant.Credential(id, secret)},
		{"x-user-id", "ann"},
		{"x-forwarded-for", "192.0.2.1"}, {"traceparent", ignored},
	} {
		block = literal(block, h[0], h[1])
	}
	traceID := block[strings.Index(string(block), aTrace):][:len(aTrace)]
	body, err := proto.Marshal(request(gatewaytest.Echo, `{}`))
	check.Must(t, err)
	message := append([]byte{0, 0, 0, 0, byte(len(body))}, body...)
	var out []byte
	var failed error
	var number [4]byte
	stream := uint32(1)
	one := func() {
		binary.BigEndian.PutUint32(number[:], stream)
		hex.Encode(traceID[24:], number[:]) // each call has its own trace ID
		out = frameOf(frameOf(out[:0], kindHeaders, wholeBlock, stream, block), kindData, ended, stream, message)
		if _, err := conn.Write(out); err != nil {
			failed = err
		}
		if failed == nil {
			_, failed = w.ends()
		}
		stream += 2
	}
	for i := range 2000 {
		if i%500 == 0 {
			patient()
		}
		one()
	}
	patient()
	// Background work, such as exchanges with Redis, can only add allocations.
	least := testing.AllocsPerRun(500, one)
	for i := 0; i < 10 && least > 0; i++ {
		patient()
		least = testing.AllocsPerRun(500, one)
	}
	if failed != nil || least != 0 {
		t.Errorf("%v allocations a call, %v", least, failed)
	}
	calls := g.Log.Calls(t, 2500)
	for _, c := range calls {
		if c.Text("code") != "OK" || c.Text("tenant") != "acme" || c.Text("user") != "ann" ||
			c.Text("client") != "192.0.2.1" {
			t.Fatal(c)
		}
	}
}
