package gateway_test

import (
	"encoding/json"
	"maps"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/capgate/capgate/internal/testkit/check"
)

// TestMCPCallsBesideTheSDK: calls that bypass the SDK get the same responses as through it. An unknown member
// of params sends a call to the SDK.
func TestMCPCallsBesideTheSDK(t *testing.T) {
	t.Parallel()
	f := startMCP(t)
	const key = "io.modelcontextprotocol/"
	meta := func(capabilities, more string) string {
		return `"_meta":{"` + key + `protocolVersion":"2026-07-28","` + key + `clientCapabilities":` + capabilities +
			more + `}`
	}
	newest := map[string]string{"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call",
		"Mcp-Name": "caps__echo"}
	named := func(name, value string) map[string]string {
		all := maps.Clone(newest)
		all[name] = value
		return all
	}
	info := `,"` + key + `clientInfo":`
	for name, c := range map[string]struct {
		id, params string
		header     map[string]string
	}{
		"newest":           {`1`, `"name":"caps__echo","arguments":{"a":"<1>"},` + meta(`{}`, ""), newest},
		"a text for an id": {`"<é>"`, `"name":"caps__echo",` + meta(`{}`, ""), newest},
		"a long id":        {`123456789012345678`, `"name":"caps__echo",` + meta(`{}`, ""), newest},
		"minus zero":       {`-0`, `"name":"caps__echo",` + meta(`{}`, ""), newest},
		"a client": {`1`, `"name":"caps__echo",` + meta(`{"elicitation":{"url":{}}}`, info+
			`{"name":"a","version":"1"}`),
			newest},
		"a client of a number":    {`1`, `"name":"caps__echo",` + meta(`{}`, info+`1`), newest},
		"a version of a number":   {`1`, `"name":"caps__echo",` + meta(`{}`, info+`{"name":"a","version":1}`), newest},
		"capabilities of a text":  {`1`, `"name":"caps__echo",` + meta(`"all"`, ""), newest},
		"elicitation of a number": {`1`, `"name":"caps__echo",` + meta(`{"elicitation":1}`, ""), newest},
		"no capabilities": {`1`, `"name":"caps__echo","_meta":{"` + key + `protocolVersion":"2026-07-28"}`,
			newest},
		"no meta": {`1`, `"name":"caps__echo"`, newest},
		"another version": {`1`, `"name":"caps__echo","_meta":{"` + key + `protocolVersion":"2026-07-29"}`,
			newest},
		"another method":      {`1`, `"name":"caps__echo",` + meta(`{}`, ""), named("Mcp-Method", "tools/list")},
		"another tool":        {`1`, `"name":"caps__echo",` + meta(`{}`, ""), named("Mcp-Name", "caps__fail")},
		"no name":             {`1`, meta(`{}`, ""), newest},
		"name of a number":    {`1`, `"name":1,` + meta(`{}`, ""), newest},
		"arguments of a list": {`1`, `"name":"caps__echo","arguments":[1],` + meta(`{}`, ""), newest},
		"arguments null":      {`1`, `"name":"caps__echo","arguments":null,` + meta(`{}`, ""), newest},
		"hidden":              {`1`, `"name":"caps__hidden",` + meta(`{}`, ""), named("Mcp-Name", "caps__hidden")},
		"unknown":             {`1`, `"name":"unknown",` + meta(`{}`, ""), named("Mcp-Name", "unknown")},
		"fails":               {`1`, `"name":"caps__fail",` + meta(`{}`, ""), named("Mcp-Name", "caps__fail")},
		"old": {`1`, `"name":"caps__echo","arguments":{"a":1}`,
			map[string]string{"Mcp-Protocol-Version": "2025-06-18"}},
		"old, hidden":  {`1`, `"name":"caps__hidden"`, map[string]string{"Mcp-Protocol-Version": "2025-11-25"}},
		"old, unknown": {`1`, `"name":"unknown"`, nil},
		"old with a new version": {`1`, `"name":"caps__echo",` + meta(`{}`, ""),
			map[string]string{"Mcp-Protocol-Version": "2025-11-25"}},
		"no version": {`1`, `"name":"caps__echo"`, nil},
	} {
		t.Run(name, func(t *testing.T) {
			answer := func(params string) [5]any {
				var header []string
				for name, value := range c.header {
					header = append(header, name, value)
				}
				resp, text := f.post(t, `{"jsonrpc":"2.0","id":`+c.id+`,"method":"tools/call","params":{`+params+`}}`,
					header...)
				var all map[string]any
				_ = json.Unmarshal([]byte(text), &all)
				if e, is := all["error"].(map[string]any); is {
					if data, is := e["data"].(map[string]any); is {
						delete(data, "request_id")
					}
				}
				whole := any(all)
				if all == nil {
					whole = strings.TrimSpace(text)
				}
				return [5]any{resp.StatusCode, resp.Header.Get("Content-Type"), resp.Header.Get("Cache-Control"), whole,
					strings.Count(strings.TrimSpace(text), "\n")}
			}
			got, want := answer(c.params), answer(c.params+`,"another":1`)
			if !reflect.DeepEqual(got, want) {
				t.Errorf("%+v\nwant %+v", got, want)
			}
		})
	}
}

// TestMCPCallsAtOnce: concurrent calls reuse memory, and each gets its own result, whatever its length.
func TestMCPCallsAtOnce(t *testing.T) {
	t.Parallel()
	f := startMCP(t)
	var callers sync.WaitGroup
	for i := range 8 {
		callers.Go(func() {
			for _, length := range []int{1, 100_000, 10, 5_000} {
				args := `{"a":"` + strings.Repeat(string(rune('a'+i)), length) + `"}`
				_, text := f.post(t, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"caps__echo",`+
					`"arguments":`+
					args+`}}`)
				var answer struct {
					Result struct {
						Content           []struct{ Text string }
						StructuredContent json.RawMessage
					}
				}
				err := json.Unmarshal([]byte(text), &answer)
				if r := answer.Result; err != nil || len(r.Content) != 1 || r.Content[0].Text != args ||
					string(r.StructuredContent) != args {
					t.Errorf("the call with %d of %c has the answer %.200s; err %+v; r %+v", length, 'a'+i, text,
						err, r)
				}
			}
		})
	}
	check.Ended(t, &callers, "the end of the calls")
}
