package cli

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	"github.com/capgate/capgate/internal/testkit/proxytest"
	docpb "github.com/capgate/capgate/proto/selu/capability"
)

// TestConsoleStreamsPassProxies: behind nginx and haproxy with default settings, the console receives each
// event of calls and approvals, and each piece of a tool's response, before the next one.
func TestConsoleStreamsPassProxies(t *testing.T) {
	t.Parallel()
	g, address := gatewaytest.ServeGated(t)
	text := strings.Replace(configOf("policies: {}\n"+patientRedis(""), address), "fleets: [", "fleets: ["+
		"{capability: asks, policy: ask, slow_start: 0s, backends: ['"+address+"']}, ", 1)
	_, public, admin := serve(t, nil, "--config", writeConfig(t, text))
	client := dial(t, public)
	ask := func(t *testing.T, tool string) { // a call that requires approval
		t.Helper()
		_, err := client.Invoke(t.Context(), &docpb.InvokeRequest{CapabilityId: "asks", ToolName: tool,
			ArgsJson: fmt.Appendf(nil, `{"test":%q}`, t.Name())})
		if status.Code(err) != codes.FailedPrecondition {
			t.Error(err)
		}
	}
	open := func(t *testing.T, via *http.Client, method, path, body string) func(text string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, "http://"+admin+path, strings.NewReader(body))
		check.Must(t, err)
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Accept", "text/event-stream")
		stream := proxytest.Open(t, via, req)
		return func(text string) {
			t.Helper()
			stream.Until(t, text)
		}
	}
	proxytest.Each(t, admin, func(t *testing.T, via *http.Client) {
		for path, begins := range map[string]string{"/v1/approvals/events": "id: ", "/v1/calls/events": "\n\n\n"} {
			t.Run(path, func(t *testing.T) {
				arrives := open(t, via, http.MethodGet, path, "")
				arrives(begins)
				for _, tool := range []string{"first", "second", "third"} {
					ask(t, tool)
					arrives(`"` + tool + `"`)
				}
			})
		}
		t.Run("tools", func(t *testing.T) {
			var saying sync.WaitGroup
			saying.Go(func() { g.Say(t, `"piece 1"`) })
			arrives := open(t, via, http.MethodPost, "/v1/playground:invoke",
				`{"capability":"caps","tool":"echo","arguments":{}}`)
			arrives("piece 1")
			check.Ended(t, &saying, "the first piece")
			for _, piece := range []string{"piece 2", "piece 3"} {
				g.Say(t, `"`+piece+`"`)
				arrives(piece)
			}
			g.Say(t, "")
		})
	})
}
