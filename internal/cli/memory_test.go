package cli

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/clienttest"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	"github.com/capgate/capgate/internal/testkit/rawhttp2"
	docpb "github.com/capgate/capgate/proto/selu/capability"
)

// crowded is a gateway in its own process with little memory, and two tenants of it.
type crowded struct {
	p             *program
	backend       *gatewaytest.Capability // quick
	public, admin string
	acme, globex  string // keys
	memory        int64  // GOMEMLIMIT, in bytes
}

// notHeap is the memory of a process that GOMEMLIMIT does not bound, mostly its text.
const notHeap = 75 << 20

func newCrowded(t *testing.T, mebibytes, processors int, fleets ...string) *crowded {
	t.Helper()
	c := &crowded{backend: gatewaytest.NewCapability("quick"), memory: int64(raceMemory * mebibytes << 20 * 4 / 3)}
	acme, ofAcme := makeKey(t)
	globex, ofGlobex := makeKey(t)
	file := writeConfig(t, fmt.Sprintf("listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\noverload: {max_memory: %dMiB, "+
		"max_delay: 10s}\ntenants:\n"+
		"  - {id: acme, capabilities: ['*'], keys: [%s]}\n  - {id: globex, capabilities: ['*'], keys: [%s]}\n"+
		"fleets:\n  - {capability: quick, policy: allow, backends: ['%s']}\n%s", mebibytes, ofAcme, ofGlobex,
		c.backend.Serve(t, call.Doc).Addr, strings.Join(fleets, "")))
	c.p, c.public, c.admin = serve(t,
		[]string{fmt.Sprintf("GOMEMLIMIT=%d", c.memory), fmt.Sprintf("GOMAXPROCS=%d", processors)}, "--config", file)
	c.acme, c.globex = acme, globex
	return c
}

// peak returns the peak memory of the process, in bytes.
func (c *crowded) peak(t *testing.T) int64 {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", c.p.cmd.Process.Pid))
	check.Must(t, err)
	_, rest, _ := strings.Cut(string(status), "VmHWM:")
	line, _, _ := strings.Cut(rest, "kB")
	n, err := strconv.ParseInt(strings.TrimSpace(line), 10, 64)
	check.Must(t, err)
	return n << 10
}

// verify checks whether another tenant is served, over an existing connection and over new ones, and whether
// the process stays within its memory, by its own account and by that of the system.
func (c *crowded) verify(t *testing.T) {
	t.Helper()
	for i := range 20 {
		for name, door := range map[string]door{"gRPC": grpcDoor(dial(t, c.public)), "JSON": jsonDoor(c.public)} {
			if got := door(t.Context(), c.globex, "quick", "{}"); got != "OK" {
				t.Fatalf("call %d of another tenant by %s: %s", i, name, got)
			}
		}
	}
	_, metrics := page(t, "http://"+c.admin+"/metrics")
	used, limit := metric(t, metrics, `capgate_memory_bytes{pool="memory"}`),
		metric(t, metrics, `capgate_memory_limit_bytes{pool="memory"}`)
	t.Logf("%.1f of %.1f MiB are accounted for", used/(1<<20), limit/(1<<20))
	if used > limit || used == 0 {
		t.Errorf("%v bytes are accounted for, of %v", used, limit)
	}
	c.verifyPeak(t)
}

// verifyPeak checks whether the process has stayed within its memory, by the account of the system.
func (c *crowded) verifyPeak(t *testing.T) {
	t.Helper()
	if had, has := c.peak(t), c.memory+raceMemory*notHeap; had > has {
		t.Errorf("the process had %d MiB, more than %d", had>>20, has>>20)
	}
}

// watch reads the process' account of its memory repeatedly, until the returned function is called. The sum of
// all pools and each pool stay within their maximum, and the pools within the sum. At some time part of the
// pool full is held and more is rejected; one tenant, or one address, gets four fifths.
func (c *crowded) watch(t *testing.T, full string, part float64) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	looks, most, held := 0, 0.0, 0.0
	all.Go(func() {
		for looks == 0 || ctx.Err() == nil {
			_, metrics := page(t, "http://"+c.admin+"/metrics")
			for _, pool := range []string{"memory", "calls", "strangers", "connections", "process", "upstreams",
				"bodies", "results", "inflating", "deciding", "unready"} {
				used, limit := metric(t, metrics, `capgate_memory_bytes{pool="`+pool+`"}`),
					metric(t, metrics, `capgate_memory_limit_bytes{pool="`+pool+`"}`)
				if used > limit || used < 0 || limit == 0 {
					t.Errorf("look %d: %s has %v bytes, of %v", looks, pool, used, limit)
				}
				if pool == "memory" {
					most = max(most, used)
				}
				if pool == full {
					held = max(held, used/limit)
				}
			}
			looks++
		}
	})
	return func() {
		t.Helper()
		cancel()
		all.Wait()
		t.Logf("%d looks; %.1f MiB were accounted for at the most", looks, most/(1<<20))
		_, metrics := page(t, "http://"+c.admin+"/metrics")
		refused := metric(t, metrics, `capgate_memory_refused_total{pool="`+full+`"}`)
		if looks == 0 || held < part || refused == 0 {
			t.Errorf("%d looks; %.2f of %s were held at the most, want %.2f; %v were refused", looks, held, full, part,
				refused)
		}
	}
}

// attacker returns a connection for arbitrary bytes.
func (c *crowded) attacker(t *testing.T) *rawhttp2.Conn {
	t.Helper()
	conn, err := rawhttp2.Dial(c.public)
	check.Must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	check.Must(t, conn.Greet())
	conn.Timeout = check.Patience
	return conn
}

func invokeHeaders(key string, more ...string) []string {
	return append([]string{":method", "POST", ":scheme", "http", ":path", "/selu.capability.Capability/Invoke",
		":authority", "x",
		"content-type", "application/grpc", "te", "trailers", "authorization", "Bearer " + key}, more...)
}

// sendPart sends the beginning of a first message as fast as the gateway accepts it, until it is rejected or
// that much was sent.
func sendPart(conn *rawhttp2.Conn, key string, length, part int) (refused bool, err error) {
	if err := conn.Write(rawhttp2.Headers(1, false, conn.Block(invokeHeaders(key)...))); err != nil {
		return false, err
	}
	prefix := binary.BigEndian.AppendUint32([]byte{0}, uint32(length))
	stream, whole, sent := 65535, 1<<20, 0
	chunk := append(prefix, make([]byte, 16<<10-len(prefix))...)
	for sent < part {
		for n := min(stream, whole, len(chunk)); n > 0 && sent < part; n = min(stream, whole, len(chunk)) {
			if err := conn.Write(rawhttp2.Data(1, false, chunk[:n])); err != nil {
				return false, err
			}
			stream, whole, sent = stream-n, whole-n, sent+n
			chunk = make([]byte, 16<<10)
		}
		f, err := conn.Read()
		switch {
		case err != nil:
			return false, err
		case f.Stream == 1 && f.Type == rawhttp2.TypeHeaders:
			fields, err := conn.Fields(f.Payload)
			switch got := fields["grpc-status"]; {
			case err == nil && (got == "8" || got == "14"): // over its share, or the whole process has no room
				return true, nil
			case err == nil && got == "4": // DEADLINE_EXCEEDED: it was held too long
				return false, nil
			}
			return false, fmt.Errorf("refused with %v, %w", fields, err)
		case f.Type == rawhttp2.TypeWindowUpdate && f.Stream == 0:
			whole += int(f.Code())
		case f.Type == rawhttp2.TypeWindowUpdate:
			stream += int(f.Code())
		case f.Type == rawhttp2.TypeReset || f.Type == rawhttp2.TypeGoAway:
			return false, fmt.Errorf("no status, but %v", f)
		}
	}
	return false, nil
}

// TestFirstMessagesAreBounded: one tenant sends first messages that never end; some are held, others rejected.
func TestFirstMessagesAreBounded(t *testing.T) {
	t.Parallel()
	c := newCrowded(t, 192, 8) // each on its own shard
	defer c.watch(t, "calls", 0.5)()
	const messages = 64
	var all sync.WaitGroup
	var refused atomic.Int64
	for range messages {
		conn := c.attacker(t)
		all.Go(func() {
			is, err := sendPart(conn, c.acme, 16<<20, 9<<20)
			if err != nil {
				t.Error(err)
			}
			if is {
				refused.Add(1)
			}
		})
	}
	all.Wait()
	if n := refused.Load(); n == 0 || n == messages {
		t.Errorf("%d of %d messages were refused", n, messages)
	}
	c.verify(t)
}

// TestCompressedMessagesAreBounded: one tenant sends a megabyte that decompresses to a gigabyte.
func TestCompressedMessagesAreBounded(t *testing.T) {
	t.Parallel()
	c := newCrowded(t, 192, 2)
	const large = 15 << 20
	plain, err := proto.Marshal(&docpb.InvokeRequest{CapabilityId: "quick", ToolName: gatewaytest.Echo,
		ArgsJson: bytes.Repeat([]byte(" "), large)})
	check.Must(t, err)
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	_, _ = w.Write(plain)
	check.Must(t, w.Close())
	message := append(binary.BigEndian.AppendUint32([]byte{1}, uint32(packed.Len())), packed.Bytes()...)
	ctx, leave := context.WithCancel(t.Context())
	stop := c.watch(t, "inflating", 0)
	var all sync.WaitGroup
	for range 4 {
		conn := c.attacker(t)
		all.Go(func() {
			for id := uint32(1); id < 2*32; id += 2 { // concurrent calls on each connection
				frames := []rawhttp2.Frame{rawhttp2.Headers(id, false,
					conn.Block(invokeHeaders(c.acme, "grpc-encoding", "gzip")...))}
				// cut off: a response at once
				if conn.Write(append(frames, rawhttp2.Data(id, true, message[:16<<10]))...) != nil {
					return
				}
			}
			_ = conn.Drain()
		})
		whole := c.attacker(t)
		all.Go(func() {
			for id := uint32(1); id < 2*16; id += 2 {
				frames := []rawhttp2.Frame{rawhttp2.Headers(id, false,
					whole.Block(invokeHeaders(c.acme, "grpc-encoding", "gzip")...))}
				for rest := message; len(rest) > 0; {
					n := min(len(rest), 16<<10)
					frames = append(frames, rawhttp2.Data(id, n == len(rest), rest[:n]))
					rest = rest[n:]
				}
				if whole.Write(frames...) != nil {
					return
				}
			}
			context.AfterFunc(ctx, func() { _ = whole.Close() })
			_ = whole.Drain()
		})
	}
	check.Until(t, "a message to be unpacked, and others to be refused", func() (bool, string) {
		_, metrics := page(t, "http://"+c.admin+"/metrics")
		refused := metric(t, metrics, `capgate_memory_refused_total{pool="inflating"}`)
		came := slices.ContainsFunc(c.backend.Seen(),
			func(s gatewaytest.Seen) bool { return len(s.Request.GetArgsJson()) == large })
		return came && refused > 0, fmt.Sprintf("one came to the backend: %t; refused: %v", came, refused)
	})
	c.verify(t)
	stop()
	leave()
}

// TestUnauthenticatedHeadersAreBounded: clients without credentials send requests that are not gRPC, whose bodies
// never arrive.
func TestUnauthenticatedHeadersAreBounded(t *testing.T) {
	t.Parallel()
	c := newCrowded(t, 64, 2)
	known := grpcDoor(dial(t, c.public))
	if got := known(t.Context(), c.globex, "quick", "{}"); got != "OK" {
		t.Fatal(got)
	}
	defer c.watch(t, "strangers", 0.5)()
	long := strings.Repeat("~|}", 4<<10)
	var all sync.WaitGroup
	for range 40 {
		conn := c.attacker(t)
		all.Go(func() {
			for id := uint32(1); id < 2*300; id += 2 {
				block := conn.Block(":method", "POST", ":scheme", "http", ":path", "/v1/capabilities/quick/invoke",
					":authority", "x",
					"content-type", "application/json", "content-length", "100", "x-long-"+strconv.Itoa(int(id)), long)
				frames := []rawhttp2.Frame{rawhttp2.Headers(id, false, block)}
				if len(block) > 16<<10 {
					frames = []rawhttp2.Frame{{Type: rawhttp2.TypeHeaders, Stream: id, Payload: block[:16<<10]},
						rawhttp2.Continuation(id, true, block[16<<10:])}
				}
				if conn.Write(frames...) != nil {
					return
				}
			}
			_ = conn.Sync() // all of them were handled
		})
	}
	all.Wait()
	for range 20 {
		if got := known(t.Context(), c.globex, "quick", "{}"); got != "OK" {
			t.Fatalf("a call of a tenant: %s", got)
		}
	}
	c.verify(t)
}

// TestConnectionsAreCharged: one address opens useless connections without a credential: some start an HTTP/1.1
// request whose headers do not end, some a frame, and some are silent. Their memory is charged: beyond the
// share of the address, connections are closed or rejected. Calls of a tenant continue.
func TestConnectionsAreCharged(t *testing.T) {
	t.Parallel()
	c := newCrowded(t, 64, 2)
	own := &http.Transport{} // other tests close idle connections of the default one, by httptest.Server.Close
	t.Cleanup(own.CloseIdleConnections)
	known, byJSON := grpcDoor(dial(t, c.public)), jsonDoorOf(&http.Client{Transport: clienttest.Bound(own)}, c.public)
	for name, door := range map[string]door{"gRPC": known, "JSON": byJSON} {
		if got := door(t.Context(), c.globex, "quick", "{}"); got != "OK" {
			t.Fatalf("%s: %s", name, got)
		}
	}
	stop := c.watch(t, "connections", 0.5)
	header := "GET / HTTP/1.1\r\nHost: localhost\r\nX-Long: " + strings.Repeat("x", 100<<10)
	frame := append([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"+
		"\x00\x00\x00\x04\x00\x00\x00\x00\x00\x00\x40\x00\x01\x04\x00\x00\x00\x01"), make([]byte, 16<<10-1)...)
	var all sync.WaitGroup
	for i := range 600 { // of 20 KiB or more each, where there are 6 MiB
		nc, err := net.Dial("tcp", c.public)
		if err != nil {
			continue // the gateway has too many
		}
		t.Cleanup(func() { _ = nc.Close() })
		check.Must(t, nc.SetDeadline(time.Now().Add(check.Patience)))
		all.Go(func() {
			switch i % 3 { // the gateway may have closed it
			case 0:
				_, _ = nc.Write([]byte(header))
			case 1:
				_, _ = nc.Write(frame)
			}
		})
	}
	all.Wait()
	check.Until(t, "more than 100 connections to be refused", func() (bool, string) {
		_, metrics := page(t, "http://"+c.admin+"/metrics")
		refused := metric(t, metrics, `capgate_connections_refused_total{reason="memory"}`)
		return refused > 100, fmt.Sprint(refused)
	})
	for range 20 {
		for name, door := range map[string]door{"gRPC": known, "JSON": byJSON} {
			if got := door(t.Context(), c.globex, "quick", "{}"); got != "OK" {
				t.Fatalf("a call of a tenant by %s: %s", name, got)
			}
		}
	}
	stop()
	c.verifyPeak(t)
}
