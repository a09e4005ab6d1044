package cli

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/grpc"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/capgate/capgate/internal/testkit/check"
	docpb "github.com/capgate/capgate/proto/selu/capability"
)

// servicesAt returns the services that a port lists by reflection.
func servicesAt(t *testing.T, conn *grpc.ClientConn) (all []protoreflect.ServiceDescriptor) {
	t.Helper()
	listed, err := askReflection(t.Context(), conn,
		&reflectionpb.ServerReflectionRequest{MessageRequest: &reflectionpb.ServerReflectionRequest_ListServices{}})
	check.Must(t, err)
	for _, l := range listed.GetListServicesResponse().GetService() {
		d, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(l.GetName()))
		check.Must(t, err)
		all = append(all, d.(protoreflect.ServiceDescriptor))
	}
	return all
}

// callMethods calls every method of both ports with malformed messages, in every encoding.
func (g *erring) callMethods(t *testing.T) {
	t.Helper()
	for port, addr := range map[string]string{"public": g.public, "admin": g.admin} {
		conn := g.dial(t, addr)
		for _, s := range servicesAt(t, conn) {
			for m := range methodsOf(s) {
				path, slow := fmt.Sprintf("/%s/%s", m.Parent().FullName(), m.Name()), ""
				if m.IsStreamingServer() {
					slow = ", slow" // it may not end
				}
				for what, message := range g.wrongMessages(m.Input()) {
					if isSkipped(path + what) {
						continue
					}
					g.callGRPC(t, conn, path, message, answer{what: "gRPC at the " + port + " port, " + path + ", " +
						what + slow})
				}
				g.callJSON(t, port, addr, m)
			}
		}
	}
}

// isSkipped reports whether a case is left out: each kind has many cases, at many methods.
func isSkipped(what string) bool { return crc32.ChecksumIEEE([]byte(what))%5 != 0 }

// wrongMessages returns bytes that are not a message of a type, or one with values that its method rejects.
func (g *erring) wrongMessages(d protoreflect.MessageDescriptor) map[string][]byte {
	secret := g.planted["arguments"]
	wrong := map[string][]byte{"garbage": append([]byte{0xff, 0xff, 0xff}, secret...)}
	for i := range d.Fields().Len() {
		f := d.Fields().Get(i)
		tag := func(typ protowire.Type) []byte { return protowire.AppendTag(nil, f.Number(), typ) }
		name := string(f.Name())
		wrong[name+" cut"] = append(append(tag(protowire.BytesType), 0xff, 0x7f), secret...)
		switch f.Kind() {
		case protoreflect.StringKind, protoreflect.BytesKind:
			wrong[name+" without UTF-8"] = protowire.AppendString(tag(protowire.BytesType), "\xff"+secret)
			wrong[name+" of another type"] = protowire.AppendVarint(tag(protowire.VarintType), 7)
		case protoreflect.MessageKind:
			wrong[name] = protowire.AppendString(tag(protowire.BytesType), secret)
		default:
			wrong[name] = protowire.AppendString(tag(protowire.BytesType), secret)
			wrong[name+" large"] = protowire.AppendVarint(tag(protowire.VarintType), 1<<63-1)
		}
	}
	return wrong
}

// callJSON calls a method in JSON: by its route, if it has one, and over Connect.
func (g *erring) callJSON(t *testing.T, port, addr string, m protoreflect.MethodDescriptor) {
	t.Helper()
	values := g.wrongJSON(m.Input(), 1)
	path := fmt.Sprintf("/%s/%s", m.Parent().FullName(), m.Name())
	for what, body := range values {
		for _, typ := range []string{"application/json"} {
			if port == "admin" || isSkipped(path+what) {
				continue
			}
			a := answer{what: "Connect, " + path + ", " + what + ", " + typ}
			sent := body
			if typ != "application/json" {
				sent = framed(0, []byte(body))
			}
			header := g.post(t, &a, path, typ, sent, "connect-protocol-version", "1")
			g.judgeFrames(t, a, header)
		}
	}
	if !hasJSON(m) {
		return
	}
	method, target, _ := overHTTP(t, m, requestOf(t, m))
	target = "http://" + addr + strings.SplitN(target, "?", 2)[0]
	for what, body := range values {
		a := answer{what: method + " at the " + port + " port, " + target + ", " + what}
		if method != http.MethodGet && method != http.MethodDelete && !isSkipped(path+what) {
			g.send(t, &a, method, target, "application/json", body)
			g.judgeHTTP(t, a)
		}
	}
	for i := range m.Input().Fields().Len() {
		f := m.Input().Fields().Get(i)
		for _, value := range []string{g.planted["query"], g.number + g.number} {
			if m.IsStreamingServer() || f.Kind() == protoreflect.StringKind {
				continue // a stream may not end, and errors may contain a name
			}
			a := answer{what: method + " at the " + port + " port, " + target + ", query " + string(f.Name()) + "=" +
				value}
			for _, name := range []string{string(f.Name()), string(f.Name()) + "[" + g.planted["query"] + "]"} {
				g.send(t, &a, method, target+"?"+url.PathEscape(name)+"="+url.QueryEscape(value), "", "")
				g.judgeHTTP(t, a)
			}
			g.send(t, &a, method, target+"?"+string(f.Name())+"="+g.planted["query"]+"&"+string(f.Name())+"="+
				g.planted["query"], "", "")
			g.judgeHTTP(t, a)
		}
	}
	if m.IsStreamingServer() {
		return
	}
	a := answer{what: method + " at the " + port + " port with an unknown parameter, " + target}
	g.send(t, &a, method, target+"?"+g.planted["query"]+"="+g.planted["query"]+";%zz", "", "")
	g.judgeHTTP(t, a)
}

// wrongJSON returns texts that are not JSON of a message.
func (g *erring) wrongJSON(d protoreflect.MessageDescriptor, depth int) map[string]string {
	secret := strconv.Quote(g.planted["arguments"])
	wrong := map[string]string{"a cut text": `{"x":` + secret, "a bare word": g.planted["arguments"], "a text": secret,
		"an array": "[" + secret + "]", "a second value": "{}" + secret, "not UTF-8": "{\"x\":\"\xff" +
			g.planted["arguments"] + "\"}", "a name twice": `{"x":` + secret + `,"x":1}`,
		"a lone surrogate": `{"x":"\ud800` + g.planted["arguments"] + `"}`, "a number": g.number,
		"a large number": `{"x":1` + strings.Repeat(g.number, 30) + "}", "deep": strings.Repeat(`{"x":`, 200) + secret +
			strings.Repeat("}", 200), "null": "null", "nothing": "", "control": "{\"x\":\"\x00" +
			g.planted["arguments"] + "\"}", "BOM": "\ufeff{}", "comment": "{/*" + g.planted["arguments"] + "*/}",
		"NaN": `{"x":NaN` + g.planted["arguments"] + "}"}
	for i := range d.Fields().Len() {
		f := d.Fields().Get(i)
		name := string(f.Name())
		values := map[string]string{"a text": secret, "a number": g.number + ".5", "a large number": g.number +
			g.number, "a truth": "true", "an object": `{"x":` + secret + `}`, "an array": "[" + secret + ",{}]",
			"nested": `[[` + secret + `]]`, "null": "[null]", "a number as text": strconv.Quote(g.number + "x")}
		if f.IsMap() {
			values["a map"] = `{` + secret + `:` + secret + `}`
		}
		if f.Message() != nil && !f.IsMap() && depth > 0 {
			for what, body := range g.wrongJSON(f.Message(), depth-1) {
				if strings.Contains(what, " is ") {
					values[what] = body
					if f.IsList() {
						values[what] = "[" + body + "]"
					}
				}
			}
		}
		if f.Kind() == protoreflect.StringKind || f.Kind() == protoreflect.BytesKind {
			delete(values, "a text") // a name, which errors may contain
			delete(values, "a number as text")
		}
		for what, value := range values {
			wrong[name+" is "+what] = fmt.Sprintf(`{%q:%s}`, name, value)
		}
	}
	return wrong
}

// sendWrongBodies sends bodies that no path accepts.
func (g *erring) sendWrongBodies(t *testing.T) {
	t.Helper()
	values := g.wrongJSON(docpb.File_selu_capability_capability_proto.Messages().ByName("InvokeRequest"), 1)
	for name, value := range map[string]string{"args": "7", "args_json": "\"%%" + g.planted["arguments"] + "\"",
		"config": `"` + g.planted["config"] + `"`, "tool_name": "{}", "timeout": `"` + g.planted["arguments"] + `"`,
		g.planted["arguments"]: "1"} {
		if name != g.planted["arguments"] {
			values["its "+name] = fmt.Sprintf(`{"tool_name":"echo",%q:%s}`, name, value)
		}
	}
	for _, args := range []string{`{"n":"SECRET"}`, `{"n":NUMBER}`, `{"n":1,"e":"SECRET"}`, `{"n":1,"s":"SECRET"}`,
		`{"n":1,"s":"aSECRET"}`, `{"n":1,"o":{"x":"SECRET"}}`, `{"n":1,"l":["SECRET"]}`, `{"n":1,"l":[NUMBER,NUMBER]}`,
		`{"n":1.5}`, `{"n":[{"SECRET":1}]}`} {
		args = strings.NewReplacer("SECRET", g.planted["arguments"], "NUMBER", g.number).Replace(args)
		values["arguments "+args[:5]+fmt.Sprint(len(args))] = `{"tool_name":"echo","args":` + args + `}`
		a := answer{what: "MCP with wrong arguments " + fmt.Sprint(len(args))}
		g.post(t, &a, "/mcp", "application/json",
			`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"checked__echo","arguments":`+args+`}}`)
		g.judgeRPC(t, a)
	}
	name, secret := rand.Text(), url.PathEscape(g.planted["query"])
	for what, body := range values {
		for _, path := range []string{"/v1/capabilities/checked/invoke", "/v1/capabilities/checked/stream",
			"/v1/capabilities/checked/tools/echo", "/v1/capabilities/checked/tools/echo/stream",
			"/v1/capabilities/grpc/tools/Fail", "/v1/capabilities/mcp/tools/echo", "/v1/engines/engine/messages",
			"/v1/approvals/" + name + "/approve"}[len(what)%6:][:3] {
			for _, more := range [][]string{nil, {"content-encoding", "gzip"}}[:1+len(what)%2] {
				a := answer{what: "JSON at " + path + ", " + what + fmt.Sprint(more)}
				g.post(t, &a, path, "application/json", body, more...)
				g.judgeHTTP(t, a)
			}
		}
	}
	for _, addr := range []string{g.public, g.admin} {
		for _, method := range []string{"GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "BREW" +
			g.planted["query"]} {
			for _, path := range []string{"/", "/v1/" + name, "/v1/capabilities/" + name + "/invoke",
				"/v1/capabilities/docs/tools/" + name, "//v1/x", "/v1/../v1/" + name, "/v1/capabilities/docs:" + name,
				"/%2e%2e/" + name, "/v1/capabilities/%ff" + name + "/invoke", "/v1/approvals/" + name, "/mcp/" + name,
				"/docs/" + name, "/openapi.json/" + name, "/debug/pprof/" + name, "/console/" + name, "/assets/" + name,
				"/signin/" + name, "/v1/fleets/" + name, "/v1/tenants/" + name + "/keys/" + name,
				"/v1/calls?page_size=" + secret, "/v1/calls?filter=" + secret + "&page_token=" + secret,
				"/v1/audit?limit=" + secret, "/v1/audit?since=" + secret, "/v1/capabilities?page_size=" + secret +
					"&page_token=" + secret, "/v1/approvals?page_size=" + secret, "/v1/approvals?state=" + secret,
				"/v1/capabilities/docs/artifacts/" + name, "/v1/capabilities/docs/artifacts/" + name + "/signed-url",
				"/v1/capabilities/docs/tools/echo/events?args=" + secret,
				"/v1/capabilities/docs/tools/echo/events?n=%zz" + secret, "/%zz"} {
				if path == "/%zz" {
					continue
				}
				for _, header := range [][]string{nil, {"if-none-match", g.planted["header"], "range", "bytes=" +
					g.planted["header"]}} {
					a := answer{what: method + " http://" + addr + path}
					g.send(t, &a, method, "http://"+addr+path, "", "", header...)
					if a.status >= 400 {
						g.judgeHTTP(t, a)
					}
				}
			}
		}
	}
	g.sendWrongHeaders(t)
}

// sendWrongHeaders sends headers that no door accepts.
func (g *erring) sendWrongHeaders(t *testing.T) {
	t.Helper()
	for _, name := range []string{"grpc-timeout", "request-timeout", "connect-timeout-ms", "traceparent",
		"idempotency-key", "x-approval-id", "x-approval-wait", "prefer", "accept", "content-type", "content-encoding",
		"accept-encoding", "x-tenant-id", "authorization", "mcp-session-id", "mcp-method", "mcp-name", "last-event-id",
		"connect-accept-encoding", "connect-content-encoding", "te", "grpc-encoding", "x-bin-bin", "cookie", "origin",
		"host", "content-digest", "expect", "x-forwarded-for"} {
		for _, value := range []string{g.planted["header"], strings.Repeat(g.planted["header"], 20),
			g.planted["header"] + "\xff"} {
			for _, target := range [][]string{{"/v1/capabilities/docs/invoke", "application/json",
				`{"tool_name":"echo"}`},
				{"/v1/capabilities/docs/artifacts?filename=x", "text/plain", "x"},
				{"/mcp", "application/json", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"docs__echo","arguments":{}}}`},
				{docpb.Capability_Invoke_FullMethodName, "application/json",
					`{"capability_id":"docs","tool_name":"echo"}`},
				{docpb.Capability_Invoke_FullMethodName, "application/grpc-web", framed(0, []byte{10, 1, 'x'})}} {
				if name == "expect" || name == "host" || name == "te" {
					continue
				}
				a := answer{what: target[0] + " with " + name}
				header := g.post(t, &a, target[0], target[1], target[2], name, value)
				switch {
				case target[0] == "/mcp":
					g.judgeRPC(t, a)
				case strings.HasPrefix(target[0], "/v1"):
					g.judgeHTTP(t, a)
				default:
					g.judgeFrames(t, a, header)
				}
			}
		}
	}
}

// sendWrongFrames sends malformed messages of Connect, gRPC-Web and gRPC.
func (g *erring) sendWrongFrames(t *testing.T) {
	t.Helper()
	secret := g.planted["arguments"]
	bodies := map[string]string{"nothing": "", "text": secret, "short": "\x00\x00\x00\x00\xff" + secret,
		"no message": framed(0, []byte(secret)), "flag": framed(0x7f, []byte(secret)),
		"compressed": framed(1, []byte(secret)), "large": "\x00\xff\xff\xff\xff" + secret, "two": framed(0, nil) +
			framed(0, []byte(secret)), "trailer": framed(0x80, []byte(secret)), "end": framed(2, []byte(secret)),
		"not UTF-8": framed(0, protowire.AppendString([]byte{10}, "\xff"+secret)), "base64": "!!" + secret,
		"base64 of garbage": base64.StdEncoding.EncodeToString([]byte(secret)),
		"JSON":              framed(0, []byte(`{"tool_name":{"x":"`+secret+`"}}`)),
		"enum":              framed(0, []byte(`{"tool_name":`+g.number+`}`)),
		"plain JSON":        `{"capability_id":"docs","tool_name":{"x":"` + secret + `"}}`,
		"base64 of a field": `{"capability_id":"docs","args_json":"!!` + secret + `"}`}
	for what, body := range bodies {
		for _, typ := range []string{"application/proto", "application/json", "application/connect+proto",
			"application/connect+json", "application/connect+" + secret, "application/grpc-web",
			"application/grpc-web+proto", "application/grpc-web+json", "application/grpc-web-text",
			"application/grpc-web+" + secret, "application/grpc", "application/grpc+json", "text/" + secret,
			"application/json; charset=" + secret, ""} {
			for _, path := range []string{docpb.Capability_Invoke_FullMethodName,
				docpb.Capability_StreamInvoke_FullMethodName, docpb.Capability_UploadInputArtifact_FullMethodName,
				"/capgate.v1.Catalog/ListTools", "/capgate.v1.Approvals/WatchApprovals", "/no.Such/Method",
				"/demo.v1.Demo/Fail", "/openparallax.v1.ClientService/SendMessage"}[len(what+typ)%6:][:2] {
				for _, more := range [][]string{nil, {"content-encoding", "gzip"},
					{"connect-content-encoding", "gzip", "grpc-encoding", "gzip"},
					{"connect-content-encoding", secret, "grpc-encoding", secret, "content-encoding", secret}} {
					if path == "/capgate.v1.Approvals/WatchApprovals" {
						continue
					}
					if isSkipped(path + typ + what) {
						continue
					}
					a := answer{what: path + ", " + typ + ", " + what + fmt.Sprint(more)}
					header := g.post(t, &a, path, typ, body, append([]string{"x-capability-id", "docs"}, more...)...)
					g.judgeFrames(t, a, header)
				}
			}
		}
	}
}

// watchOthers reads what another tenant and operators can see.
func (g *erring) watchOthers(t *testing.T) {
	t.Helper()
	for _, path := range []string{"/v1/calls", "/v1/approvals", "/v1/capabilities", "/v1/capabilities/mcp",
		"/v1/capabilities/grpc", "/openapi.json", "/v1/policies"} {
		_, text := request(t.Context(), t, http.MethodGet, "http://"+g.public+path, g.other)
		g.scan("another tenant", text)
	}
	for _, path := range []string{"/v1/calls", "/v1/fleets", "/v1/summary", "/v1/capabilities", "/v1/capabilities/mcp",
		"/metrics", "/readyz?verbose", "/v1/audit", "/v1/limits"} {
		_, text := page(t, "http://"+g.admin+path)
		g.scan("operators", text)
	}
	_, text := page(t, "http://"+g.admin+"/metrics")
	g.scan("metrics", text)
	var calls struct{ Calls []json.RawMessage }
	_, text = page(t, "http://"+g.admin+"/v1/calls")
	if json.Unmarshal([]byte(text), &calls) != nil || len(calls.Calls) < 10 {
		t.Errorf("the last calls are %s", clipped(text))
	}
}
