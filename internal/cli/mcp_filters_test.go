package cli

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/capgate/capgate/internal/testkit/check"
)

// TestFiltersOfMCPServers: calls of an MCP server's tools pass the filters of every call: checks of arguments,
// policy, shields, the audit log and limits.
func TestFiltersOfMCPServers(t *testing.T) {
	t.Parallel()
	var want atomic.Value
	want.Store("")
	_, web := newMCPServer(t, &want)
	var calls atomic.Int32
	web.Config.Handler = counted(web.Config.Handler, &calls)
	web.Start()
	log := filepath.Join(t.TempDir(), "audit.log")
	fleet := func(capability, policy, more string) string {
		return strings.Replace(mcpFleet(capability, web.URL+"/mcp", "", "validate_arguments: true"+more),
			"policy: allow",
			"policy: "+policy, 1)
	}
	p, public, _ := serve(t, nil, "--config", writeConfig(t, mcpConfig("audit: {to: "+log+"}\nlimits: {per_month: 5}\n"+
		"shields: [{name: main, address: '"+serveShield(t)+"', timeout: 10s}]", fleet("plain", "allow", ""),
		fleet("judged", "allow", ", shield: main"), fleet("blocked", "block", ""))))
	waitTools(t, public, "plain__weather", "judged__weather")
	cases := []struct{ capability, args, part, audited string }{
		{"plain", `{"city":"Ulm"}`, `"structuredContent":{"weather":"sun in Ulm"}`, `"code":"OK"`},
		{"plain", `{"city":7}`, `"pointer":"/city"`, `"reason":"ARGUMENTS_INVALID"`},
		{"judged", `{"city":"Ulm"}`, `"reason":"SHIELD_BLOCKED"`, `"reason":"SHIELD_BLOCKED"`},
		{"blocked", `{"city":"Ulm"}`, `"reason":"TOOL_UNKNOWN"`, `"reason":"TOOL_BLOCKED"`},
		{"plain", `{"city":"Bonn"}`, `sun in Bonn`, `"code":"OK"`},
		{"plain", `{"city":"Ulm"}`, `"reason":"BUDGET_EXHAUSTED"`, `"reason":"BUDGET_EXHAUSTED"`},
	}
	for i, c := range cases {
		params := fmt.Sprintf(`{"name":"%s__weather","arguments":%s}`, c.capability, c.args)
		if text := askMCP(t, public, "tools/call", params); !strings.Contains(text, c.part) {
			t.Errorf("call %d: %s, want %s", i, text, c.part)
		}
	}
	if n := calls.Load(); n != 2 {
		t.Errorf("the server got %d calls", n)
	}
	p.stop(t)
	text, err := os.ReadFile(log)
	check.Must(t, err)
	var records []string
	for line := range strings.Lines(string(text)) {
		if strings.Contains(line, `"tool":"weather"`) {
			records = append(records, line)
		}
	}
	if len(records) != len(cases) {
		t.Fatalf("got %s", text)
	}
	for i, c := range cases {
		if !strings.Contains(records[i], `"capability":"`+c.capability+`"`) ||
			!strings.Contains(records[i], c.audited) {
			t.Errorf("call %d is recorded as %s, want %s", i, records[i], c.audited)
		}
	}
}

// counted counts the requests of tools/call.
func counted(next http.Handler, calls *atomic.Int32) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		if bytes.Contains(body, []byte(`"tools/call"`)) {
			calls.Add(1)
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		next.ServeHTTP(w, r)
	})
}
