package cli

import (
	"encoding/json"
	"strings"
	"testing"

	"google.golang.org/grpc/metadata"

	"github.com/capgate/capgate/gateway/status"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/clienttest"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	docpb "github.com/capgate/capgate/proto/selu/capability"
)

// TestApprovalLink: with public_url, callers get the URL of the page that answers their approval, over gRPC,
// HTTP and from capgate invoke. A changed URL applies without a restart; without one there is no link.
func TestApprovalLink(t *testing.T) {
	t.Parallel()
	backend := gatewaytest.NewCapability("one").Serve(t, call.Doc)
	files := configMap{dir: t.TempDir()}
	put := func(more string) {
		files.put(t, map[string]string{"capgate.yaml": strings.Replace(configOf(more+patientRedis(""), backend.Addr),
			"policy: allow", "policy: ask", 1)})
	}
	put("public_url: https://gate.example/tools/\n")
	p, public, _ := serve(t, nil, "--config", files.file("capgate.yaml"))

	exit, _, errs := runProgram(t, nil, "invoke", "--addr", public, "caps", gatewaytest.Echo, `{"n":1}`)
	id := approvalID(t, errs)
	link := "https://gate.example/tools/inbox#/default/" + id
	if exit != exitRefused || !strings.Contains(errs, "\n  page:         "+link+"\n") {
		t.Errorf("got %d %s", exit, errs)
	}
	invoke := func(pairs ...string) error {
		_, err := dial(t, public).Invoke(metadata.AppendToOutgoingContext(t.Context(), pairs...),
			&docpb.InvokeRequest{CapabilityId: "caps", ToolName: gatewaytest.Echo, ArgsJson: []byte(`{"n":1}`)})
		return err
	}
	for reason, pairs := range map[string][]string{approvalRequired: nil, approvalPending: {"x-approval-id", id}} {
		if info := status.InfoOf(invoke(pairs...)); info.GetReason() != reason ||
			info.GetMetadata()["approval_link"] != link {
			t.Errorf("%s: %v", reason, info)
		}
	}
	over := func() (body struct{ Approval map[string]string }) {
		resp, err := clienttest.HTTP.Post("http://"+public+"/v1/capabilities/caps/tools/"+gatewaytest.Echo,
			"application/json",
			strings.NewReader(`{"n":1}`))
		check.Must(t, err)
		defer resp.Body.Close()
		check.Must(t, json.NewDecoder(resp.Body).Decode(&body))
		return body
	}
	if got := over().Approval; got["id"] != id || got["link"] != link {
		t.Errorf("over HTTP: %v", got)
	}
	put("")
	p.stderr.wait(t, p, `"msg":"configuration loaded"`)
	if got := over().Approval; got["id"] != id || got["link"] != "" {
		t.Errorf("without a URL: %v", got)
	}
}
