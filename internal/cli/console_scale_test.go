package cli

import (
	"flag"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/testkit/browsertest"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/clienttest"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
)

// scale is the share of the full size that consoleScale uses. make console-scale sets 1, for a quiet machine.
var scale = flag.Float64("scale", 0.04, "share of 500 fleets of 50 backends, 5,000 tools and 5,000 approvals")

// perManifest is the number of tools of a manifest.
const perManifest = 100

// manyTools writes manifests of the first fleets, and returns their files.
func manyTools(t *testing.T, n int) string {
	t.Helper()
	var files []string
	for i := range n {
		var text strings.Builder
		fmt.Fprintf(&text, "id: f%03d\nimage: i\ntools:\n", i)
		for j := range perManifest {
			fmt.Fprintf(&text, "- {name: tool_%d, description: does what its name says, input_schema: {type: object}, "+
				"recommended_policy: ask}\n", i*perManifest+j)
		}
		files = append(files, writeConfig(t, text.String()))
	}
	return "'" + strings.Join(files, "', '") + "'"
}

// consoleScale: screens of a large gateway show a part of their lists, and say of how much. The times are logged.
func consoleScale(t *testing.T, b *browsertest.Browser) {
	share := func(n int) int { return int(float64(n) * *scale) }
	fleets, tools, approvals, backends := share(500), share(5000), share(5000), 50
	if *scale < 1 {
		backends = 4
	}
	_, port, err := net.SplitHostPort(gatewaytest.NewCapability("one").Serve(t, call.Doc).Addr)
	check.Must(t, err)
	var config strings.Builder
	config.WriteString("listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\ndrain: {delay: 0s}\npolicies: {}\n" +
		"redis: {timeout: 10s, url: embedded}\noverload: off\n" +
		"manifests: [" + manyTools(t, tools/perManifest) + "]\nfleets:\n")
	for i := range fleets {
		fmt.Fprintf(&config, "- {capability: f%03d, policy: ask, slow_start: 0s, backends: [", i)
		for j := range backends { // one server at its address, and addresses without a server
			addr := "127.0.0.1:" + port
			if j > 0 {
				addr = fmt.Sprintf("127.0.%d.%d:1", 1+i%250, j)
			}
			fmt.Fprintf(&config, "'%s', ", addr)
		}
		config.WriteString("]}\n")
	}
	_, public, admin := serve(t, nil, "--config", writeConfig(t, config.String()))
	waitPage(t, "http://"+admin+"/v1/summary", fmt.Sprintf(`"fleets_usable":%d,`, fleets))
	named := fleets - tools/perManifest // the others have the manifests
	client := &http.Client{Timeout: check.Patience}
	for i := range approvals {
		url := fmt.Sprintf("http://%s/v1/capabilities/f%03d/tools/echo", public, fleets-1-i%named)
		check.Until(t, "an approval", func() (bool, string) { // the embedded Redis may be late on a busy machine
			resp, text := clienttest.Send(t, client, "POST", url, fmt.Sprintf(`{"n%d":%d}`, i, i))
			_ = resp.Body.Close()
			return resp.StatusCode == http.StatusAccepted, resp.Status + ": " + text
		})
	}
	client.CloseIdleConnections()
	var saw map[string]struct {
		Wall, Busy, Idle float64
		Nodes            int
		Said             string
	}
	b.Run(t, "scale", seen{"origins": []string{"http://" + admin}, "idle": 100 * *scale / 10}, &saw)
	for name, want := range map[string]string{"Fleets": fmt.Sprintf("%d fleets", fleets), "Tools": "tools",
		"Inbox": "wait"} {
		s := saw[name]
		t.Logf("%-6s %.2f s until input, %.2f s of them in the page; then %.4f of a core; %d elements; %s", name,
			s.Wall, s.Busy, s.Idle, s.Nodes, s.Said)
		if s.Nodes == 0 || s.Nodes > 3000 || !strings.Contains(s.Said, want) {
			t.Errorf("%s: %+v", name, s)
		}
	}
}
