package cli

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/clienttest"
	docpb "github.com/capgate/capgate/proto/selu/capability"
	livepb "github.com/capgate/capgate/proto/selu/capability/v1"
	legacypb "github.com/capgate/capgate/proto/selu/legacy"
)

// asBytes is a codec of messages that are already bytes.
type asBytes struct{}

func (asBytes) Marshal(v any) ([]byte, error) { return *v.(*[]byte), nil }
func (asBytes) Unmarshal(data []byte, v any) error {
	*v.(*[]byte) = append([]byte(nil), data...)
	return nil
}
func (asBytes) Name() string { return "proto" }

// dial returns a client of a port.
func (g *erring) dial(t *testing.T, addr string) *grpc.ClientConn {
	t.Helper()
	conn, err := clienttest.NewConn("passthrough:///"+addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	check.Must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// callGRPC makes a call of one message, and checks its error.
func (g *erring) callGRPC(t *testing.T, conn *grpc.ClientConn, method string, message []byte, a answer,
	header ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), timeoutOf(a.what))
	defer cancel()
	ctx = metadata.AppendToOutgoingContext(ctx, append(g.header(), header...)...)
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, method,
		grpc.ForceCodec(asBytes{}))
	check.Must(t, err)
	if err = stream.SendMsg(&message); err == nil || errors.Is(err, io.EOF) {
		_ = stream.CloseSend()
		for err = nil; err == nil; {
			var got []byte
			err = stream.RecvMsg(&got) // a result, or a tool's own error
		}
	}
	if !errors.Is(err, io.EOF) {
		g.judgeStatus(t, a, status.Convert(err).Proto())
	}
}

// judgeStatus checks the status of a call.
func (g *erring) judgeStatus(t *testing.T, a answer, st *spb.Status) {
	t.Helper()
	a.text = protojson.Format(st)
	if fromClient(st) {
		return
	}
	g.judge(t, a)
	for _, d := range st.GetDetails() {
		if info := new(errdetails.ErrorInfo); d.MessageIs(info) && d.UnmarshalTo(info) == nil &&
			info.GetReason() != "" {
			return
		}
	}
	if !a.theirs && codes.Code(st.GetCode()) != codes.Canceled {
		t.Errorf("%s: a status without a reason: %s", a.what, clipped(a.text))
	}
}

// fromClient reports whether a status is the client's own: its deadline has expired, or it cannot read a
// response that the gateway passes on unread.
func fromClient(st *spb.Status) bool {
	return len(st.GetDetails()) == 0 && slices.ContainsFunc([]string{"context deadline exceeded",
		"grpc: failed to decompress", "unexpected EOF", "grpc: Decompressor is not installed", "cardinality violation"},
		func(words string) bool { return strings.HasPrefix(st.GetMessage(), words) })
}

func timeoutOf(what string) time.Duration {
	if strings.Contains(what, "slow") {
		return 300 * time.Millisecond
	}
	return check.Patience
}

// callTools calls a tool at every door, for each way in which its backend may fail.
func (g *erring) callTools(t *testing.T) {
	t.Helper()
	conn := g.dial(t, g.public)
	for capability, tool := range adapters {
		for _, mode := range modes(capability) {
			g.callTool(t, conn, capability, tool, mode)
		}
	}
	for _, mode := range []string{"die", "slow", "page-200", "page-302", "page-404", "page-500", "garbage",
		"wrong-result", "wrong-code", "nothing", "deep", "block"} {
		g.callTool(t, conn, "judged", "echo", mode)
	}
	for _, capability := range []string{"people", "blocked", "gone", "absent"} {
		g.callTool(t, conn, capability, "echo", "code-9")
	}
	for _, mode := range modes("engine") {
		g.callEngine(t, conn, mode)
	}
}

// callTool makes a call at each door.
func (g *erring) callTool(t *testing.T, conn *grpc.ClientConn, capability, tool, mode string) {
	t.Helper()
	args := fmt.Sprintf(`{"mode":"mode:%s;","secret":%q,"number":%s}`, mode, g.planted["echo"], g.number)
	if capability == "grpc" {
		args = fmt.Sprintf(`{"message":"mode:%s; %s"}`, mode, g.planted["echo"])
	}
	of := func(door string) answer {
		return answer{what: door + ", " + capability + ", " + mode, theirs: theirs(mode) && adapters[capability] != ""}
	}
	config := fmt.Sprintf(`{"K":%q}`, g.planted["config"])
	doc, err := proto.Marshal(&docpb.InvokeRequest{CapabilityId: capability, ToolName: tool, ArgsJson: []byte(args),
		ConfigJson: []byte(config)})
	check.Must(t, err)
	live, err := proto.Marshal(&livepb.InvokeRequest{CapabilityId: capability, ToolName: tool, ArgsJson: []byte(args),
		ConfigJson: []byte(config)})
	check.Must(t, err)
	old, err := proto.Marshal(&legacypb.InvokeRequest{ToolName: tool, Parameters: args})
	check.Must(t, err)
	named := []string{"x-capability-id", capability}
	g.callGRPC(t, conn, docpb.Capability_Invoke_FullMethodName, doc, of("gRPC"), named...)
	g.callGRPC(t, conn, docpb.Capability_StreamInvoke_FullMethodName, doc, of("gRPC stream"), named...)
	g.callGRPC(t, conn, livepb.Capability_Invoke_FullMethodName, live, of("gRPC v1"), named...)
	if mode != "slow" {
		g.callGRPC(t, conn, livepb.Capability_StreamInvoke_FullMethodName, live, of("gRPC v1 stream"), named...)
		g.callGRPC(t, conn, legacypb.CapabilityService_Invoke_FullMethodName, old, of("gRPC legacy"), named...)
	}
	g.callHTTP(t, capability, tool, args, config, of)
	g.callFrames(t, capability, args, doc, of)
}

// post sends a request to the public port, and returns the response.
func (g *erring) post(t *testing.T, a *answer, target, typ, body string, header ...string) http.Header {
	t.Helper()
	return g.send(t, a, http.MethodPost, "http://"+g.public+target, typ, body, header...)
}

func (g *erring) send(t *testing.T, a *answer, method, address, typ, body string, header ...string) http.Header {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), check.Patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, address, strings.NewReader(body))
	if err != nil {
		t.Fatal(a.what, err)
	}
	if typ != "" {
		req.Header.Set("Content-Type", typ)
	}
	if strings.Contains(a.what, "slow") {
		req.Header.Set("Connect-Timeout-Ms", "300")
		req.Header.Set("Grpc-Timeout", "300m")
	}
	for all := append(g.header(), header...); len(all) > 0; all = all[2:] {
		req.Header.Set(all[0], all[1])
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Errorf("%s: %v", a.what, err)
		return nil
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		text = append(text, fmt.Sprintf("(%v)", err)...)
	}
	a.status, a.typ, a.text, a.head = resp.StatusCode, resp.Header.Get("Content-Type"), string(text),
		fmt.Sprint(resp.Header)
	return resp.Header
}

// callHTTP makes a call at the HTTP doors.
func (g *erring) callHTTP(t *testing.T, capability, tool, args, config string, of func(string) answer) {
	t.Helper()
	body := fmt.Sprintf(`{"tool_name":%q,"args":%s,"config":%s}`, tool, args, config)
	for door, header := range map[string][]string{"JSON": nil, "JSON events": {"accept", "text/event-stream"},
		"JSON lines": {"accept", "application/x-ndjson"}, "JSON statuses": {"prefer", "errors=http"},
		"JSON key": {"idempotency-key", g.planted["idempotency key"] + "-" + rand.Text()}} {
		if door != "JSON" && strings.Contains(of("").what, "slow") {
			continue
		}
		a, path := of(door), "/invoke"
		if door == "JSON events" || door == "JSON lines" {
			path = "/stream"
		}
		g.post(t, &a, "/v1/capabilities/"+capability+path, "application/json", body, header...)
		g.judgeHTTP(t, a)
	}
	call := func(id string) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":"%s__%s","arguments":%s}}`,
			id, capability, tool, args)
	}
	for door, body := range map[string]string{"MCP": call("1"), "MCP by the SDK": call("-1"), "MCP batch": "[" +
		call("1") + "," + call(`"b"`) + "]", "MCP events": strings.Replace(call("2"), `"params":{`,
		`"params":{"_meta":{"progressToken":1},`, 1)} {
		if door != "MCP" && strings.Contains(of("").what, "slow") {
			continue
		}
		for i, version := range []string{"2025-03-26", "2025-11-25", "2026-07-28"} {
			if (len(of(door).what)+i)%3 != 0 {
				continue // another failure mode has it
			}
			a := of(door + " " + version)
			if version == "2026-07-28" {
				body = strings.Replace(body, `"params":{`,
					`"params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"},`, 1)
			}
			g.post(t, &a, "/mcp", "application/json", body, "accept", "application/json, text/event-stream",
				"mcp-protocol-version", version, "mcp-method", "tools/call", "mcp-name", capability+"__"+tool)
			g.judgeRPC(t, a)
		}
	}
}

// framed returns a message in the envelope of gRPC.
func framed(flag byte, message []byte) string {
	return string(append(binary.BigEndian.AppendUint32([]byte{flag}, uint32(len(message))), message...))
}

// callFrames makes a call over Connect and gRPC-Web.
func (g *erring) callFrames(t *testing.T, capability, args string, doc []byte, of func(string) answer) {
	t.Helper()
	asJSON, err := json.Marshal(map[string]string{"capability_id": capability, "tool_name": adapters[capability],
		"args_json": base64.StdEncoding.EncodeToString([]byte(args))})
	check.Must(t, err)
	invoke, stream := docpb.Capability_Invoke_FullMethodName, docpb.Capability_StreamInvoke_FullMethodName
	for door, test := range map[string][]string{"Connect": {invoke, "application/proto", string(doc)},
		"Connect JSON":        {invoke, "application/json", string(asJSON)},
		"Connect stream":      {stream, "application/connect+proto", framed(0, doc)},
		"Connect stream JSON": {stream, "application/connect+json", framed(0, asJSON)},
		"gRPC-Web":            {invoke, "application/grpc-web+proto", framed(0, doc)},
		"gRPC-Web stream":     {stream, "application/grpc-web+proto", framed(0, doc)},
		"gRPC-Web text": {invoke, "application/grpc-web-text",
			base64.StdEncoding.EncodeToString([]byte(framed(0, doc)))}} {
		if door != "Connect" && door != "gRPC-Web" && strings.Contains(of("").what, "slow") {
			continue
		}
		a := of(door)
		header := g.post(t, &a, test[0], test[1], test[2], "connect-protocol-version", "1")
		g.judgeFrames(t, a, header)
	}
}

// judgeFrames checks a response of Connect or gRPC-Web.
func (g *erring) judgeFrames(t *testing.T, a answer, header http.Header) {
	t.Helper()
	switch {
	case strings.HasPrefix(a.typ, "application/problem+json"):
		g.judgeHTTP(t, a)
	case strings.HasPrefix(a.typ, "application/grpc-web"):
		if strings.HasPrefix(a.typ, "application/grpc-web-text") {
			text, _ := base64.StdEncoding.DecodeString(a.text)
			a.text = string(text)
		}
		trailer := metadata.MD{}
		for name, values := range header {
			trailer[strings.ToLower(name)] = values
		}
		if at := strings.LastIndex(a.text, "grpc-status"); at >= 0 {
			for line := range strings.SplitSeq(a.text[max(0, strings.LastIndex(a.text, "\x80")):], "\r\n") {
				name, value, _ := strings.Cut(line, ":")
				if at := strings.Index(name, "grpc-"); at >= 0 {
					trailer.Set(name[at:], strings.TrimSpace(value))
				}
			}
		}
		if code := trailer.Get("grpc-status"); len(code) == 0 || code[0] == "0" {
			return
		}
		st := &spb.Status{Code: 2}
		if details := trailer.Get("grpc-status-details-bin"); len(details) > 0 {
			text, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(details[0], "="))
			if err != nil || proto.Unmarshal(text, st) != nil {
				t.Errorf("%s: malformed details: %q", a.what, details[0])
			}
		}
		if message := trailer.Get("grpc-message"); len(message) > 0 {
			st.Message = message[0]
		}
		g.judgeStatus(t, a, st)
	case strings.HasPrefix(a.typ, "application/connect+"), a.status == http.StatusOK:
		at := strings.LastIndex(a.text, `{"error":`)
		if at >= 0 {
			a.text = a.text[at:]
			g.judge(t, a)
			at = 0
		}
		if at >= 0 && !a.theirs && !strings.Contains(a.text[at:], "google.rpc.ErrorInfo") {
			t.Errorf("%s: an error without a reason: %s", a.what, clipped(a.text))
		}
	default:
		g.judge(t, a)
		if !strings.HasPrefix(a.typ, "application/json") || !a.theirs && !strings.Contains(a.text,
			"google.rpc.ErrorInfo") {
			t.Errorf("%s: an error without a type or a reason: %d %s %s", a.what, a.status, a.typ, clipped(a.text))
		}
	}
}

// callEngine calls an engine, over JSON and over gRPC.
func (g *erring) callEngine(t *testing.T, conn *grpc.ClientConn, mode string) {
	t.Helper()
	if mode == "slow" {
		return
	}
	content := "mode:" + mode + "; " + g.planted["echo"]
	for _, typ := range []string{"text/event-stream", "application/json"} {
		a := answer{what: "JSON of an engine, " + mode, theirs: theirs(mode)}
		g.post(t, &a, "/v1/engines/engine/messages", "application/json",
			fmt.Sprintf(`{"content":%q,"session_id":"s"}`, content), "accept", typ)
		g.judgeHTTP(t, a)
	}
	message := append([]byte{10, byte(len(content))}, content...)
	message = append(message, 18, 1, 's', 24, 1)
	g.callGRPC(t, conn, "/openparallax.v1.ClientService/SendMessage", message,
		answer{what: "gRPC of an engine, " + mode, theirs: theirs(mode)})
	g.callGRPC(t, conn, "/openparallax.v1.ClientService/ResolveApproval", message,
		answer{what: "gRPC of an engine's approval, " + mode, theirs: theirs(mode)})
}
