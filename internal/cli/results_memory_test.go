package cli

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/capgate/capgate/internal/testkit/check"
	docpb "github.com/capgate/capgate/proto/selu/capability"
)

// lavish is a capability whose tools return the number of MiB in their arguments: of control characters, or of
// JSON.
type lavish struct {
	docpb.UnimplementedCapabilityServer
}

func (lavish) Healthcheck(context.Context, *docpb.HealthRequest) (*docpb.HealthResponse, error) {
	return &docpb.HealthResponse{Ready: true}, nil
}

func (lavish) result(req *docpb.InvokeRequest) []byte {
	n, _ := strconv.Atoi(strings.Trim(string(req.GetArgsJson()), `{}"n: `))
	if req.GetToolName() == "json" {
		return slicesJSON(n << 20)
	}
	return bytes.Repeat([]byte{1}, n<<20-100)
}

func slicesJSON(n int) []byte {
	return append(append([]byte(`{"a":"`), bytes.Repeat([]byte("x"), n-100)...), `"}`...)
}

func (l lavish) Invoke(_ context.Context, req *docpb.InvokeRequest) (*docpb.InvokeResponse, error) {
	return &docpb.InvokeResponse{ResultJson: l.result(req)}, nil
}

func (l lavish) StreamInvoke(req *docpb.InvokeRequest, s grpc.ServerStreamingServer[docpb.InvokeChunk]) error {
	return s.Send(&docpb.InvokeChunk{Data: l.result(req), Done: true})
}

// serveLavish serves it, and returns its address.
func serveLavish(t *testing.T) string {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	check.Must(t, err)
	server := grpc.NewServer()
	docpb.RegisterCapabilityServer(server, lavish{})
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	return listener.Addr().String()
}

// unreadRequest sends an HTTP/1.1 request whose response is not read. It returns the first bytes of the
// response.
func unreadRequest(public, key, path, typ, body string, more ...string) (begin string, conn net.Conn, err error) {
	dialer := net.Dialer{Control: func(_, _ string, c syscall.RawConn) (err error) {
		failed := c.Control(func(fd uintptr) {
			err = errors.Join(syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, syscall.TCP_MAXSEG, 1024),
				syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 4096))
		})
		return errors.Join(failed, err)
	}}
	if conn, err = dialer.Dial("tcp", public); err != nil {
		return "", nil, err
	}
	_, err = fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Type: %s\r\n%s"+
		"Content-Length: %d\r\n\r\n%s", path, key, typ, strings.Join(more, ""), len(body), body)
	if err != nil {
		return "", conn, err
	}
	buf := make([]byte, 400)
	n, err := conn.Read(buf)
	return string(buf[:n]), conn, err
}

// TestUnreadResultsAreBounded: at each door, results for clients that read nothing are charged to their tenant.
// Those without room are rejected, and another tenant is served.
func TestUnreadResultsAreBounded(t *testing.T) {
	t.Parallel()
	c := newCrowded(t, 256, 2, "  - {capability: lavish, policy: allow, slow_start: 0s, backends: ['"+serveLavish(t)+
		"']}\n")
	stop := c.watch(t, "results", 0.5)
	const mcpHeaders = "Accept: application/json, text/event-stream\r\n"
	invoke := func(tool string, n int) *docpb.InvokeRequest {
		return &docpb.InvokeRequest{CapabilityId: "lavish", ToolName: tool, ArgsJson: []byte(strconv.Itoa(n))}
	}
	message, err := proto.Marshal(invoke("json", 8))
	check.Must(t, err)
	framed := string(append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message))), message...))
	call := func(tool string, n int, meta string) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"lavish__%s","arguments":{"n":%d}%s}}`,
			tool, n, meta)
	}
	var all sync.WaitGroup
	var mu sync.Mutex
	answers := map[string]int{}
	var conns []net.Conn
	for name, request := range map[string][]string{
		"MCP, control characters": {"/mcp", "application/json", call("controls", 16, ""), mcpHeaders},
		"MCP, JSON":               {"/mcp", "application/json", call("json", 8, ""), mcpHeaders},
		"MCP, events": {"/mcp", "application/json", call("controls", 4, `,"_meta":{"progressToken":1}`),
			mcpHeaders},
		"MCP, a batch": {"/mcp", "application/json", "[" + call("json", 8, "") + "," + call("json", 8, "") + "]",
			mcpHeaders},
		"JSON":        {"/v1/capabilities/lavish/tools/json", "application/json", `{"n":8}`},
		"JSON, whole": {"/v1/capabilities/lavish/invoke", "application/json", `{"tool_name":"json","args":{"n":8}}`},
		"JSON, a stream": {"/v1/capabilities/lavish/tools/json", "application/json", `{"n":8}`,
			"Accept: text/event-stream\r\n"},
		"gRPC-Web": {"/selu.capability.Capability/Invoke", "application/grpc-web+proto", framed},
		"gRPC-Web, text": {"/selu.capability.Capability/Invoke", "application/grpc-web-text",
			base64.StdEncoding.EncodeToString([]byte(framed))},
		"Connect": {"/selu.capability.Capability/Invoke", "application/proto", string(message)},
		"Connect, JSON": {"/selu.capability.Capability/Invoke", "application/json",
			`{"capabilityId":"lavish","toolName":"json","argsJson":"` + base64.StdEncoding.EncodeToString([]byte("8")) +
				`"}`},
	} {
		for range 12 {
			all.Go(func() {
				begin, conn, err := unreadRequest(c.public, c.acme, request[0], request[1], request[2], request[3:]...)
				mu.Lock()
				defer mu.Unlock()
				if conn != nil {
					conns = append(conns, conn)
				}
				status, _, _ := strings.Cut(strings.TrimPrefix(begin, "HTTP/1.1 "), "\r\n")
				if err != nil {
					status = err.Error()
				}
				answers[name+": "+status]++
			})
		}
	}
	all.Wait() // not bounded as a whole: the gateway writes a GiB, at the pace of the machine
	for answer, n := range answers {
		t.Logf("%s: %d", answer, n)
		if !strings.Contains(answer, ": 2") && !strings.Contains(answer, ": 429") &&
			!strings.Contains(answer, ": 503") {
			t.Errorf("got %s", answer)
		}
	}
	c.verify(t)
	stop()
	for _, conn := range conns {
		_ = conn.Close()
	}
	check.Until(t, "the responses to be released", func() (bool, string) {
		_, metrics := page(t, "http://"+c.admin+"/metrics")
		used := metric(t, metrics, `capgate_memory_bytes{pool="results"}`)
		return used == 0, fmt.Sprint(used)
	})
}
