package gateway_test

import (
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
)

// TestMCPEventsHaveTheIDOfTheirRequest: the acknowledgement and the end of a subscription repeat its id, digit
// by digit.
func TestMCPEventsHaveTheIDOfTheirRequest(t *testing.T) {
	t.Parallel()
	f := startMCP(t)
	const key = "io.modelcontextprotocol/"
	for _, id := range []string{`1`, `9007199254740993`, `-123456789012345678901`, `"1"`} {
		_, text := f.post(t, `{"jsonrpc":"2.0","id":`+id+
			`,"method":"subscriptions/listen","params":{"notifications":{},`+`"_meta":{"`+key+
			`protocolVersion":"2026-07-28","`+key+`clientCapabilities":{}}}}`, "Mcp-Protocol-Version", "2026-07-28",
			"Mcp-Method", "subscriptions/listen")
		if strings.Count(text, `"`+key+`subscriptionId":`+id+`}`) != 2 ||
			strings.Count(text, `data: {"jsonrpc":"2.0","id":`+id+`,"result":`) != 1 {
			t.Errorf("%s: %s", id, text)
		}
	}
}

// TestMCPCancelsTheCallOfTheSameID: notifications/cancelled ends the call with exactly its id, digit by digit,
// and no other one: ids that are equal as doubles are two calls, and so are a number and a string of its
// digits.
func TestMCPCancelsTheCallOfTheSameID(t *testing.T) {
	t.Parallel()
	f := startMCP(t, func(o *gatewaytest.Options) {
		o.MCP.Keys = gatewaytest.SharedKeys
	})
	resp, _ := f.post(t, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25",`+
		`"capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`)
	of := []string{"Mcp-Session-Id", resp.Header.Get("Mcp-Session-Id"), "Mcp-Protocol-Version", "2025-11-25"}
	ids := []string{`9007199254740992`, `9007199254740993`, `-9007199254740993`, `123456789012345678901`,
		`123456789012345678902`, `"9007199254740993"`, `"a\"b"`}
	for _, params := range []string{`"name":"caps__block"`, `"name":"caps__block","_meta":{"progressToken":1}`} {
		ended := make([]chan struct{}, len(ids))
		var calling sync.WaitGroup
		for i, id := range ids {
			ended[i] = make(chan struct{})
			calling.Go(func() {
				defer close(ended[i])
				if _, text := f.post(t, `{"jsonrpc":"2.0","id":`+id+`,"method":"tools/call","params":{`+params+`}}`,
					of...); strings.Contains(text, `"result"`) {
					t.Errorf("the call %s has a result: %s", id, text)
				}
			})
		}
		for range ids {
			check.Received(t, f.capability.Blocked(), "the calls")
		}
		for i, id := range ids {
			for j := range ids[i:] {
				select {
				case <-ended[i+j]:
					t.Errorf("the call %s has ended before its cancellation", ids[i+j])
				default:
				}
			}
			resp, text := f.post(t, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":`+id+
				`}}`, of...)
			if resp.StatusCode != http.StatusAccepted {
				t.Errorf("%s: %d %s", id, resp.StatusCode, text)
			}
			check.Received(t, ended[i], "the end of the call "+id)
		}
		check.Ended(t, &calling, "the end of the calls")
	}
}
