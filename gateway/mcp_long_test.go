package gateway_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/capgate/capgate/internal/testkit/check"
)

// TestMCPLongResults: a result that is sent while it is encoded equals one that is encoded at once, for all
// characters, in JSON and in events.
func TestMCPLongResults(t *testing.T) {
	t.Parallel()
	f := startMCP(t)
	for name, part := range map[string]string{"ASCII": "abc", "control characters": "\x01\x1f\n\"\\",
		"two bytes": "aéb", "four bytes": "x😀"} {
		args, err := json.Marshal(map[string]string{"a": strings.Repeat(part, 60_000)})
		check.Must(t, err)
		for _, meta := range []string{"", `,"_meta":{"progressToken":1}`} {
			_, text := f.post(t, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"caps__echo","arguments":`+
				string(args)+meta+`}}`)
			if i := strings.LastIndex(text, "\ndata: "); i >= 0 {
				text = text[i+7:]
			}
			var answer struct {
				Result struct {
					Content    []struct{ Text string }
					Structured json.RawMessage `json:"structuredContent"`
				}
			}
			if err := json.Unmarshal([]byte(text), &answer); err != nil {
				t.Fatalf("%s%s: %v in %.200s", name, meta, err, text)
			}
			if r := answer.Result; len(r.Content) != 1 || r.Content[0].Text != string(args) ||
				string(r.Structured) != string(args) {
				t.Errorf("%s%s: %d contents, %d bytes, not %d", name, meta, len(r.Content), len(r.Structured),
					len(args))
			}
		}
	}
}
