package gateway_test

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/capgate/capgate/gateway/frontdoor/mcp"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/clienttest"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
)

// open sends a request; header holds names and values in turn, and +name adds a further value.
func (f *mcpFront) open(t *testing.T, method, body string, header ...string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, f.gateway.URL(cmp.Or(f.path, mcp.Path)),
		strings.NewReader(body))
	check.Must(t, err)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	for i := 0; i < len(header); i += 2 {
		if name, again := strings.CutPrefix(header[i], "+"); again {
			req.Header.Add(name, header[i+1])
			continue
		}
		req.Header.Set(header[i], header[i+1])
	}
	req.Host = req.Header.Get("Host") // empty means that of the URL
	client := f.gateway.HTTP1(t)
	if f.http2 {
		client = f.gateway.HTTP2(t)
	}
	client.Timeout, client.Transport = 0, clienttest.Bound(client.Transport) // of streams
	resp, err := client.Do(req)
	check.Must(t, err)
	check.Cleanup(t, func() { _ = resp.Body.Close() })
	return resp
}

// post sends a message as it is.
func (f *mcpFront) post(t *testing.T, body string, header ...string) (*http.Response, string) {
	t.Helper()
	resp := f.open(t, http.MethodPost, body, header...)
	text, err := io.ReadAll(resp.Body)
	check.Must(t, err)
	return resp, string(text)
}

// TestMCPHostileMessages: each message has one reading or is rejected with the specified error.
func TestMCPHostileMessages(t *testing.T) {
	t.Parallel()
	f := startMCP(t, func(o *gatewaytest.Options) {
		o.MCP.Keys = gatewaytest.SharedKeys
	})
	const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
		`"io.modelcontextprotocol/clientCapabilities":{}}`
	newest := []string{"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", "caps__echo"}
	const callsEcho = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{` + meta + `,"name":"caps__echo"}}`
	for name, c := range map[string]struct {
		body   string
		header []string
		status int
		code   int
		noID   bool
	}{
		"a batch": {body: `[{"jsonrpc":"2.0","id":1,"method":"ping"}]`, status: 400, code: -32600,
			header: []string{"Mcp-Protocol-Version", "2025-06-18"}},
		"a batch of the newest revision": {body: `[{"jsonrpc":"2.0","id":1,"method":"ping"}]`, status: 400,
			code: -32600, header: newest, noID: true},
		"an empty batch": {body: `[]`, status: 400, code: -32600},
		"a huge batch":   {body: `[1` + strings.Repeat(`,1`, 40) + `]`, status: 400, code: -32600},
		"two arguments in a batch": {body: `[{"jsonrpc":"2.0","id":1,"method":"tools/call",` +
			`"params":{"name":"caps__echo",` +
			`"arguments":{"a":1,"a":2}}}]`, status: 400, code: -32700},
		"no JSON": {body: `{"jsonrpc":`, status: 400, code: -32700},
		"two methods": {body: `{"jsonrpc":"2.0","id":1,"method":"ping","method":"tools/list"}`, status: 400,
			code: -32700},
		"two arguments": {body: `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"caps__echo",` +
			`"arguments":{"a":1,"a":2}}}`, status: 400, code: -32700},
		"nesting": {body: `{"jsonrpc":"2.0","id":1,"method":"ping","params":` + strings.Repeat(`{"a":`, 200) + `1` +
			strings.Repeat(`}`, 201), status: 400, code: -32700},
		"no version": {body: `{"id":1,"method":"ping"}`, status: 400, code: -32600},
		"a null id":  {body: `{"jsonrpc":"2.0","id":null,"method":"ping"}`, status: 400, code: -32600},
		"a long id": {body: `{"jsonrpc":"2.0","id":"` + strings.Repeat("x", 300) + `","method":"ping"}`,
			status: 400, code: -32600},
		"params as a list":  {body: `{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}`, status: 400, code: -32600},
		"an unknown method": {body: `{"jsonrpc":"2.0","id":1,"method":"roots/steal"}`, status: 200, code: -32601},
		"a huge name": {body: `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"` +
			strings.Repeat("x", 1<<20) + `"}}`, status: 200, code: -32602},
		"arguments as a list": {body: `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"caps__echo",` +
			`"arguments":[]}}`, status: 200, code: -32602},
		"a number as an argument of a prompt": {body: `{"jsonrpc":"2.0","id":1,"method":"prompts/get",` +
			`"params":{` + meta + `,"name":"caps__greet","arguments":{"who":7}}}`, status: 400, code: -32602,
			header: []string{"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "prompts/get", "Mcp-Name",
				"caps__greet"}},
		"a number as the name of a prompt": {body: `{"jsonrpc":"2.0","id":1,"method":"prompts/get",` +
			`"params":{` + meta + `,"name":7}}`, status: 400, code: -32602,
			header: []string{"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "prompts/get", "Mcp-Name", "7"}},
		"a huge message": {body: strings.Repeat(" ", 5<<20), status: 413, code: -32600},
		"a forged cursor": {body: `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"cursor":"???"}}`,
			status: 200, code: -32602},
		"an unknown revision": {body: `{"jsonrpc":"2.0","id":1,"method":"ping"}`, status: 400, code: -32022,
			header: []string{"Mcp-Protocol-Version", "2024-01-01"}},
		"another method in the header": {body: `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{` + meta + `}}`,
			header: newest, status: 400, code: -32020},
		"another name in the header": {body: `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{` + meta +
			`,"name":"caps__fail"}}`, header: newest, status: 400, code: -32020},
		"no method in the header": {body: `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{` + meta + `}}`,
			header: []string{"Mcp-Protocol-Version", "2026-07-28"}, status: 400, code: -32020},
		"no name in the header": {body: `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{` + meta +
			`,"name":"caps__echo"}}`, header: newest[:4], status: 400, code: -32020},
		"another revision in the header": {body: `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{` + meta +
			`}}`, header: []string{"Mcp-Protocol-Version", "2025-11-25"}, status: 400, code: -32020},
		"a revision in the header alone": {body: `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{` +
			`"name":"caps__echo"}}`, header: newest, status: 400, code: -32602},
		"a revision in the body alone": {body: `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{` + meta + `}}`,
			status: 400, code: -32020},
		"a huge method": {body: `{"jsonrpc":"2.0","id":1,"method":"` + strings.Repeat("x", 1<<20) + `"}`, status: 400,
			code: -32600},
		"a huge state": {body: `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{` + meta +
			`,"name":"caps__echo","requestState":"` + strings.Repeat("x", 1<<20) + `"}}`, header: newest, status: 400,
			code: -32602},
		"a forged state": {body: `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{` + meta +
			`,"name":"caps__echo","requestState":"e30"}}`, header: newest, status: 400, code: -32602},
		"two methods in headers": {body: callsEcho, header: append(newest[:6:6], "+Mcp-Method", "tools/list"),
			status: 400,
			code:   -32020},
		"two names in headers": {body: callsEcho, header: append(newest[:6:6], "+Mcp-Name", "caps__fail"), status: 400,
			code: -32020},
		"one name in two headers": {body: callsEcho, header: append(newest[:6:6], "+Mcp-Name", "caps__echo"),
			status: 400,
			code:   -32020},
		"two versions in headers": {body: callsEcho,
			header: append(newest[:6:6], "+Mcp-Protocol-Version", "2025-11-25"),
			status: 400, code: -32020},
		"two sessions in headers": {body: `{"jsonrpc":"2.0","id":1,"method":"ping"}`, status: 400, code: -32020,
			header: []string{"Mcp-Session-Id", "a", "+Mcp-Session-Id", "b"}},
		"a forged session": {body: `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"caps__echo"}}`,
			header: []string{"Mcp-Protocol-Version", "2025-11-25", "Mcp-Session-Id", "e30"}, status: 404, code: -32600},
		"a huge session": {body: `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"caps__echo"}}`,
			header: []string{"Mcp-Protocol-Version", "2025-11-25", "Mcp-Session-Id", strings.Repeat("x", 8<<10)},
			status: 404,
			code:   -32600},
		"another host, by DNS rebinding": {body: `{"jsonrpc":"2.0","id":1,"method":"ping"}`, status: 421,
			header: []string{"Host", "evil.example", "Origin", "http://evil.example"}},
		"a text": {body: `{"jsonrpc":"2.0","id":1,"method":"ping"}`, header: []string{"Content-Type", "text/plain"},
			status: 415, code: -32600},
	} {
		resp, text := f.post(t, c.body, c.header...)
		var answer struct {
			Error struct{ Code int }
		}
		if strings.Contains(name, "revision") && !c.noID && !strings.Contains(text, `"id":1`) {
			t.Errorf("%s: the response has another request's id: %s", name, text)
		}
		if err := json.Unmarshal([]byte(text), &answer); err != nil || resp.StatusCode != c.status ||
			answer.Error.Code != c.code {
			t.Errorf("%s: %d %s, %v; answer %+v", name, resp.StatusCode, text, err, answer)
		}
	}
	for _, header := range [][]string{{"Mcp-Protocol-Version", "2025-11-25", "+Mcp-Protocol-Version", "2025-06-18"},
		{"Mcp-Protocol-Version", "2025-11-25", "Mcp-Session-Id", "a", "+Mcp-Session-Id", "b"}} {
		resp := f.open(t, http.MethodGet, "", append(header, "Accept", "text/event-stream")...)
		if resp.StatusCode != http.StatusBadRequest {
			t.Errorf("a stream with %q: %d", header, resp.StatusCode)
		}
	}
	resp, text := f.post(t, `{"jsonrpc":"2.0","id":1,"method":"ping"}`, "Origin", "https://evil.example")
	if resp.StatusCode != http.StatusForbidden {
		t.Errorf("a page of another site: %d %s", resp.StatusCode, text)
	}
	if len(f.capability.Seen()) > 0 {
		t.Errorf("%d calls", len(f.capability.Seen()))
	}
}

// TestMCPBatches: 2025-03-26 has batches. Each request in a batch has its own response.
func TestMCPBatches(t *testing.T) {
	t.Parallel()
	f := startMCP(t)
	invoke := func(id, tool string) string {
		return `{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"name":"caps__` + tool +
			`","arguments":{"n":` + id + `},"_meta":{"progressToken":"p"}}}`
	}
	init := `{"jsonrpc":"2.0","id":5,"method":"initialize","params":{"protocolVersion":"2025-03-26",` +
		`"capabilities":{},` +
		`"clientInfo":{"name":"x","version":"1"}}}`
	notify := `{"jsonrpc":"2.0","method":"notifications/initialized"}`
	answered := `{"jsonrpc":"2.0","id":9,"result":{}}`
	all := []string{invoke("1", gatewaytest.Echo), notify, invoke("2", "hidden"),
		`{"jsonrpc":"2.0","id":3,"method":"x"}`, answered, `{"jsonrpc":"1.0","id":4,"method":"ping"}`, init, `7`, `[]`,
		invoke("6", gatewaytest.Echo)}
	resp, text := f.post(t, "["+strings.Join(all, ",")+"]")
	var answers []struct {
		ID     json.RawMessage
		Result struct{ StructuredContent json.RawMessage }
		Error  struct{ Code int }
	}
	if err := json.Unmarshal([]byte(text), &answers); err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%d %s; err %+v", resp.StatusCode, text, err)
	}
	var got []string
	for _, a := range answers {
		got = append(got, fmt.Sprintf("%s %s %d", a.ID, a.Result.StructuredContent, a.Error.Code))
	}
	want := []string{`1 {"n":1} 0`, `2  -32602`, `3  -32601`, `4  -32600`, `5  -32600`, `null  -32600`, `null  -32600`,
		`6 {"n":6} 0`}
	if !slices.Equal(got, want) {
		t.Errorf("%q: %s", got, text)
	}
	if resp, text := f.post(t, "["+notify+","+answered+"]"); resp.StatusCode != http.StatusAccepted || text != "" {
		t.Errorf("got %d %s", resp.StatusCode, text)
	}
}

// TestMCPMethods: messages are sent with POST. GET opens a stream of events, in revisions that have one.
func TestMCPMethods(t *testing.T) {
	t.Parallel()
	f := startMCP(t)
	const stream = "text/event-stream"
	for _, c := range []struct {
		method, accept, revision string
		status                   int
		allow                    string
	}{
		{http.MethodGet, stream, revisions[0], 405, "POST"}, {http.MethodPut, stream, revisions[0], 405, "POST"},
		{http.MethodGet, "application/json", revisions[1], 406, ""},
		{http.MethodGet, stream + ";q=0, */*", revisions[1], 406, ""},
		{http.MethodHead, stream, "", 405, "GET, POST"}, {http.MethodDelete, stream, "", 405, "GET, POST"},
		{http.MethodPut, stream, revisions[1], 405, "GET, POST"},
	} {
		resp := f.open(t, c.method, "", "Accept", c.accept, "Mcp-Protocol-Version", c.revision)
		if resp.StatusCode != c.status || resp.Header.Get("Allow") != c.allow {
			t.Errorf("%+v: %d %v", c, resp.StatusCode, resp.Header)
		}
	}
}

// TestMCPUnreadStreams: clients that do not read their streams delay no other client and leave nothing behind.
func TestMCPUnreadStreams(t *testing.T) { // alone, as it sends megabytes
	f := startMCP(t)
	const clients, size = 8, 512 << 10
	small := net.Dialer{Control: func(_, _ string, c syscall.RawConn) (err error) {
		// Linux sizes a send buffer for some tens of segments, which have 64 KiB on loopback.
		failed := c.Control(func(fd uintptr) {
			err = errors.Join(syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, syscall.TCP_MAXSEG, 1024),
				syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 4096))
		})
		return errors.Join(failed, err)
	}}
	body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"caps__echo","arguments":{"a":"` +
		strings.Repeat("x", size) + `"},"_meta":{"progressToken":"p"}}}`
	var conns []net.Conn
	for range clients {
		conn, err := small.DialContext(t.Context(), "tcp", f.gateway.Addr)
		check.Must(t, err)
		conns = append(conns, conn)
		_, err = fmt.Fprintf(conn, "POST /mcp HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nAccept: "+
			"*/*\r\n"+"Content-Length: %d\r\n\r\n%s", conn.RemoteAddr(), len(body), body)
		check.Must(t, err)
	}
	f.capability.WaitSeen(t, clients)
	_, text := f.post(t, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"caps__echo","arguments":{}}}`)
	if !strings.Contains(text, `"structuredContent":{}`) {
		t.Errorf("got %s", text)
	}
	for _, conn := range conns {
		_ = conn.Close()
	}
	f.gateway.Stop(t) // waits for all calls, and finds leaked goroutines
}

// TestMCPNames: a fleet may have another prefix for its tools, or none.
func TestMCPNames(t *testing.T) {
	t.Parallel()
	for prefix, want := range map[string]string{"my.tools": "my.tools__", "": ""} {
		f := startMCP(t, func(o *gatewaytest.Options) {
			o.MCP.Settings.Names = mcp.NewNames(map[string]string{"caps": prefix})
		})
		s := f.session(t, revisions[0], nil)
		list, err := s.ListTools(t.Context(), nil)
		if err != nil || len(list.Tools) == 0 || list.Tools[0].Name != want+gatewaytest.Echo {
			t.Fatalf("got %v %v", list, err)
		}
		if r, err := s.CallTool(t.Context(), &sdk.CallToolParams{Name: want + gatewaytest.Echo}); err != nil ||
			textOf(t, r) != "{}" {
			t.Errorf("%q: %v %v", prefix, r, err)
		}
		_, err = s.CallTool(t.Context(), &sdk.CallToolParams{Name: "caps__" + gatewaytest.Echo})
		if _, data := refusalOf(t, err); data["reason"] != "TOOL_UNKNOWN" {
			t.Errorf("%q: %v", prefix, data)
		}
	}
}

// TestMCPSearch: a tenant with many tools gets two tools that find and call the others.
func TestMCPSearch(t *testing.T) {
	t.Parallel()
	ring := newKeyring()
	f := startMCP(t, func(o *gatewaytest.Options) {
		o.Authenticator = ring.authenticator()
		o.MCP.Settings.Search = []string{"acme"}
	})
	for _, revision := range revisions {
		s := f.session(t, revision, nil, "X-Api-Key", ring.credentials["acme"])
		if list, err := s.ListTools(t.Context(), nil); err != nil || len(list.Tools) != 2 {
			t.Fatalf("%s: %+v %v", revision, list, err)
		}
		for query, want := range map[string]int{"Echo": 1, "hidden": 0, "does": 5, "": 0} {
			r, err := s.CallTool(t.Context(), &sdk.CallToolParams{Name: "search_tools",
				Arguments: map[string]any{"query": query}})
			check.Must(t, err)
			var found struct{ Tools []struct{ Name string } }
			if err := json.Unmarshal([]byte(textOf(t, r)), &found); err != nil || len(found.Tools) != want ||
				query == "Echo" && found.Tools[0].Name != "caps__"+gatewaytest.Echo {
				t.Errorf("%s: %q: %s; err %+v", revision, query, textOf(t, r), err)
			}
		}
		r, err := s.CallTool(t.Context(), &sdk.CallToolParams{Name: "call_tool", Arguments: map[string]any{
			"name": "caps__" + gatewaytest.Echo, "arguments": map[string]any{"a": 1}}})
		if err != nil || textOf(t, r) != `{"a":1}` {
			t.Errorf("%s: %+v %v", revision, r, err)
		}
		_, err = s.CallTool(t.Context(), &sdk.CallToolParams{Name: "call_tool", Arguments: map[string]any{
			"name": "caps__hidden"}})
		if _, data := refusalOf(t, err); data["reason"] != "TOOL_UNKNOWN" {
			t.Errorf("%s: %v", revision, data)
		}
	}
	other := f.session(t, revisions[0], nil, "X-Api-Key", ring.credentials["globex"])
	if list, err := other.ListTools(t.Context(), nil); err != nil || len(list.Tools) != 5 {
		t.Errorf("got %+v %v", list, err)
	}
}
