package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/grpctest"
)

// upBackends is the number of healthy backends.
const upBackends = 8

// adapters are the fleets whose backends fail as a call requests, each with a tool.
var adapters = map[string]string{"docs": "echo", "live": "echo", "old": "echo", "mcp": "echo", "grpc": "Fail"}

// serveBackends runs the backends and returns their fleets.
func (g *erring) serveBackends(t *testing.T) []string {
	t.Helper()
	failing := serveFailing(t, g.failGRPC)
	web := serveFailing(t, g.failMCP)
	shield := serveFailing(t, g.failShield)
	file := filepath.Join(t.TempDir(), "demo.binpb")
	check.Must(t, os.WriteFile(file, grpctest.Descriptors, 0o600))
	manifest := filepath.Join(t.TempDir(), "checked.yaml")
	check.Must(t, os.WriteFile(manifest,
		[]byte("id: checked\nclass: tool\nimage: checked\ntool_source: manifest\ntools:\n"+
			`  - {name: echo, description: Echo., input_schema: {type: object, properties: {n: {type: integer, maximum: 5}, `+`e: {enum: [a, b]}, s: {type: string, pattern: '^a+$', format: date}, o: {type: object, additionalProperties: false}, `+
			`l: {type: array, items: {type: number}, uniqueItems: true}}, required: [n]}}`+"\n"), 0o600))
	fleet := func(capability, more, backend string) string {
		return "- {capability: " + capability + ", slow_start: 0s, ejection: {failures: 0}, " +
			"retry: {share: 0}, deadline: {default: 2s, max: 2s, stream: 2s}, " + more + " backends: ['" + backend +
			"']}"
	}
	return []string{
		"shields:", "- {name: main, url: 'http://" + shield + "/evaluate', timeout: 1s}",
		"fleets:",
		fleet("docs", "policy: allow, dialect: doc, event_source: [echo],", failing),
		fleet("live", "policy: allow, dialect: live,", failing),
		fleet("old", "policy: allow, dialect: legacy,", failing),
		fleet("mcp", "policy: allow, protocol: mcp,", "http://"+web+"/mcp"),
		fleet("grpc", "policy: allow, protocol: grpc, grpc_service: {descriptor_file: '"+file+
			"', methods: [demo.v1.Demo/*]},", failing),
		"- {capability: engine, protocol: openparallax, services: [openparallax.v1.ClientService], backends: ['" +
			failing + "']}", fleet("judged", "policy: allow, dialect: doc, shield: main,", failing),
		fleet("checked", "policy: allow, dialect: doc, validate_arguments: true, manifest: '"+manifest+"',", failing),
		fleet("people", "policy: ask, dialect: doc,", failing),
		fleet("blocked", "policy: block, dialect: doc,", failing),
		"- {capability: gone, policy: allow, backends: ['" + check.ClosedPort(t) + "']}",
	}
}

// connKey is the context key of a request's connection.
type connKey struct{}

// serveFailing runs a server of HTTP/1 and HTTP/2 in cleartext.
func serveFailing(t *testing.T, serve func(http.ResponseWriter, *http.Request, string)) (addr string) {
	t.Helper()
	ln := check.Listen(t)
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	s := &http.Server{Protocols: protocols, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		serve(w, r, string(body))
	}), ConnContext: func(ctx context.Context, c net.Conn) context.Context {
		return context.WithValue(ctx, connKey{}, c)
	},
		ErrorLog: nil, ReadHeaderTimeout: check.Patience}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = s.Serve(ln)
	}()
	check.Cleanup(t, func() {
		_ = s.Close()
		<-ended
	})
	return ln.Addr().String()
}

// modes returns the ways in which backends fail. A call names one in its arguments.
func modes(adapter string) (all []string) {
	all = []string{"die", "reset", "slow", "page-200", "page-302", "page-400", "page-401", "page-403", "page-404",
		"page-405", "page-429", "page-500", "page-502", "page-503"}
	if adapter == "mcp" {
		for _, code := range []int{0, 1, -1, -32000, -32001, -32002, -32600, -32601, -32602, -32603, -32700} {
			all = append(all, "rpc-"+strconv.Itoa(code))
		}
		return append(all, "unnamed-400", "unnamed-404", "unnamed-500", "garbage", "cut", "other-id", "wrong-result",
			"wrong-content", "wrong-code", "both", "neither", "nothing", "no-content", "text", "events-garbage",
			"events-cut", "events-nothing", "batch", "asks", "tool-error", "notes", "twice", "bad-utf8", "deep", "null")
	}
	for code := codes.Canceled; code <= codes.Unauthenticated; code++ {
		all = append(all, "code-"+strconv.Itoa(int(code)))
	}
	return append(all, "code-77", "code-x", "no-status", "no-trailers", "garbage", "short", "gzip", "coding", "two",
		"none", "bad-details", "bad-utf8", "tool-error", "no-json")
}

// theirs reports whether the response of a mode contains words of the backend.
func theirs(mode string) bool {
	return strings.HasPrefix(mode, "code-") || strings.HasPrefix(mode, "rpc-") || strings.HasPrefix(mode, "unnamed-") ||
		mode == "tool-error" || mode == "no-json" || mode == "notes" || mode == "wrong-content" || mode == "bad-details"
}

var modeIn = regexp.MustCompile(`mode:([a-z0-9-]+);`)

// modeOf returns the mode in a message of any protocol.
func modeOf(body string) string {
	if found := modeIn.FindStringSubmatch(body); found != nil {
		return found[1]
	}
	return ""
}

// failAnyhow fails as servers of every protocol do.
func failAnyhow(w http.ResponseWriter, r *http.Request, mode, quoted string) bool {
	switch name, number, _ := strings.Cut(mode, "-"); name {
	case "die":
		_ = r.Context().Value(connKey{}).(net.Conn).Close()
		panic(http.ErrAbortHandler)
	case "reset":
		panic(http.ErrAbortHandler)
	case "slow":
		select {
		case <-r.Context().Done():
		case <-time.After(check.Patience):
		}
	case "page":
		code, _ := strconv.Atoi(number)
		w.Header().Set("Content-Type", "text/html")
		w.Header().Set("Location", "https://elsewhere.test/"+quoted)
		w.Header().Set("Www-Authenticate", "Basic realm="+quoted)
		w.WriteHeader(code)
		fmt.Fprintf(w, "<html><h1>Failed</h1><p>%s</p></html>", quoted)
	default:
		return false
	}
	return true
}

// failGRPC returns a capability of every dialect, a gRPC service and an engine.
func (g *erring) failGRPC(w http.ResponseWriter, r *http.Request, body string) {
	mode, quoted := modeOf(body), g.planted["echo"]
	if failAnyhow(w, r, mode, quoted) {
		return
	}
	h := w.Header()
	h.Set("Content-Type", "application/grpc")
	status := func(code, message string) {
		h.Set(http.TrailerPrefix+"grpc-status", code)
		if message != "" {
			h.Set(http.TrailerPrefix+"grpc-message", message)
		}
	}
	frame := func(flag byte, message []byte) {
		out := []byte{flag, 0, 0, byte(len(message) >> 8), byte(len(message))}
		_, _ = w.Write(append(out, message...))
	}
	field := func(n protowire.Number, text string) []byte {
		return protowire.AppendString(protowire.AppendTag(nil, n, protowire.BytesType), text)
	}
	result := []byte{}
	method := strings.ToLower(r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:])
	switch method {
	case "healthcheck":
		result = []byte{8, 1}
	case "invoke":
		result = field(1, `{}`)
		if strings.Contains(r.URL.Path, "CapabilityService") {
			result = append(result, 16, 1)
		}
	}
	switch name, number, _ := strings.Cut(mode, "-"); name {
	case "code":
		status(number, "it failed with "+quoted)
		return
	case "no":
		switch number {
		case "status":
			return
		case "trailers":
			frame(0, result)
			return
		}
		result = append(field(1, "no JSON "+quoted), 16, 1)
	case "garbage":
		result = append([]byte{10, 255}, quoted...)
	case "short":
		_, _ = w.Write(append([]byte{0, 0, 0, 1, 0}, quoted...))
		status("0", "")
		return
	case "gzip":
		h.Set("Grpc-Encoding", "gzip")
		frame(1, []byte(quoted))
		status("0", "")
		return
	case "coding":
		h.Set("Grpc-Encoding", quoted)
		frame(1, []byte(quoted))
		status("0", "")
		return
	case "two":
		frame(0, result)
	case "none":
		status("0", "")
		return
	case "bad":
		if number == "details" {
			status("9", "it failed with "+quoted)
			h.Set(http.TrailerPrefix+"grpc-status-details-bin", "!!"+quoted)
			return
		}
		result = append(field(1, "\xff"+quoted), 16, 1)
	case "tool":
		result = field(2, "the tool failed with "+quoted)
		if strings.Contains(r.URL.Path, "CapabilityService") {
			result = field(3, "the tool failed with "+quoted)
		}
	}
	frame(0, result)
	status("0", "")
}

// failMCP returns an MCP server.
func (g *erring) failMCP(w http.ResponseWriter, r *http.Request, body string) {
	var m struct {
		ID     json.RawMessage
		Method string
	}
	if json.Unmarshal([]byte(body), &m) != nil || r.Method != http.MethodPost {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	answer := func(member, text string) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,%q:%s}`, m.ID, member, text)
	}
	switch m.Method {
	case "initialize":
		answer("result", `{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"failing","version":"1"}}`)
		return
	case "tools/list":
		answer("result", `{"tools":[{"name":"echo","inputSchema":{"type":"object"}}]}`)
		return
	case "ping":
		answer("result", "{}")
		return
	case "tools/call":
	default:
		if len(m.ID) > 0 {
			answer("error", `{"code":-32601,"message":"no such method"}`)
			return
		}
		w.WriteHeader(http.StatusAccepted)
		return
	}
	mode, quoted := modeOf(body), g.planted["echo"]
	if !failAnyhow(w, r, mode, quoted) {
		g.failTool(w, mode, quoted, string(m.ID), answer)
	}
}

// failTool responds to a call of an MCP server.
func (g *erring) failTool(w http.ResponseWriter, mode, quoted, id string, answer func(member, text string)) {
	failure := func(code string) string {
		return fmt.Sprintf(`{"code":%s,"message":"it failed with %s\u0000\u001b[31m\n","data":{"input":%q}}`, code,
			quoted, quoted)
	}
	write := func(typ, text string) {
		w.Header().Set("Content-Type", typ)
		_, _ = io.WriteString(w, text)
	}
	const good = `{"content":[{"type":"text","text":"done"}]}`
	name, number, _ := strings.Cut(mode, "-")
	switch {
	case name == "rpc":
		answer("error", failure(number))
	case name == "unnamed":
		code, _ := strconv.Atoi(number)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":null,"error":%s}`, failure("-32600"))
	case mode == "garbage":
		write("application/json", `{"jsonrpc":"2.0","id":`+id+`,"result":{"content":`+quoted)
	case mode == "cut":
		w.Header().Set("Content-Length", "1000")
		write("application/json", `{"jsonrpc":"2.0","id":`+id+`,"result":{"content":"`+quoted)
	case mode == "other-id":
		write("application/json", `{"jsonrpc":"2.0","id":"`+quoted+`","result":`+good+`}`)
	case mode == "wrong-result":
		answer("result", strconv.Quote(quoted))
	case mode == "wrong-content":
		answer("result", `{"content":[{"type":"`+quoted+`","text":7}],"isError":true}`)
	case mode == "wrong-code":
		answer("error", `{"code":"`+quoted+`","message":7}`)
	case mode == "both":
		answer("result", good+`,"error":`+failure("1"))
	case mode == "neither":
		answer("other", strconv.Quote(quoted))
	case mode == "nothing":
		write("application/json", "")
	case mode == "no-content":
		w.WriteHeader(http.StatusAccepted)
	case mode == "text":
		write("text/plain", quoted)
	case mode == "events-garbage":
		write("text/event-stream", "data: {"+quoted+"\n\n")
	case mode == "events-cut":
		write("text/event-stream", `data: {"jsonrpc":"2.0","id":`+id+`,"result":{"content":"`+quoted)
	case mode == "events-nothing":
		write("text/event-stream", ": "+quoted+"\n\n")
	case mode == "batch":
		write("application/json", `[{"jsonrpc":"2.0","id":`+id+`,"error":`+failure("1")+`}]`)
	case mode == "asks":
		write("text/event-stream", `data: {"jsonrpc":"2.0","id":1,"method":"sampling/createMessage","params":{"x":"`+
			quoted+`"}}`+"\n\n"+`data: {"jsonrpc":"2.0","method":"notifications/message","params":{"level":"error","data":"`+quoted+`"}}`+"\n\n")
	case mode == "tool-error":
		answer("result", `{"isError":true,"content":[{"type":"text","text":"the tool failed with `+quoted+`"}]}`)
	case mode == "notes":
		write("text/event-stream", `data: {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"`+quoted+
			`","progress":"`+quoted+`"}}`+"\n\n"+`data: {"jsonrpc":"2.0","id":`+id+`,"error":`+failure("5")+`}`+"\n\n")
	case mode == "twice":
		answer("error", failure("3"))
		answer("error", failure("4"))
	case mode == "bad-utf8":
		answer("result", `{"content":[{"type":"text","text":"`+"\xff"+quoted+`"}]}`)
	case mode == "deep":
		answer("result", `{"content":[],"structuredContent":`+strings.Repeat(`{"a":`, 200)+strconv.Quote(quoted)+
			strings.Repeat("}", 201))
	case mode == "null":
		answer("result", "null")
	default:
		answer("result", good)
	}
}

// failShield returns a Shield.
func (g *erring) failShield(w http.ResponseWriter, r *http.Request, body string) {
	mode, quoted := modeOf(body), g.planted["echo"]
	if failAnyhow(w, r, mode, quoted) {
		return
	}
	w.Header().Set("Content-Type", "application/json")
	switch mode {
	case "garbage":
		_, _ = io.WriteString(w, `{"decision":`+quoted)
	case "wrong-result":
		_, _ = io.WriteString(w, `{"decision":"`+quoted+`","confidence":"`+quoted+`"}`)
	case "wrong-code":
		_, _ = io.WriteString(w, `{"decision":7,"reason":["`+quoted+`"]}`)
	case "nothing":
	case "deep":
		_, _ = w.Write(bytes.Repeat([]byte{'['}, 1<<20))
	default:
		_, _ = io.WriteString(w, `{"decision":"BLOCK","reason":"`+quoted+`"}`)
	}
}
