package cli

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/clienttest"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
)

func capgateCatalog(t *testing.T, admin string, args ...string) (exit int, stdout, stderr string) {
	t.Helper()
	return runProgram(t, []string{"CAPGATE_ADMIN=" + admin}, append([]string{"catalog"}, args...)...)
}

// changeConfig has a webhook and a notice of approvals.
const changeConfig = "approvals: {notices: [{name: webhook, url: '%s/signed', secret_file: %s}, " +
	"{name: slack, format: slack, url_file: %s}]}\n"

// TestAToolIsAccepted: a manifest changes a tool, which requires approval until an operator accepts it.
func TestAToolIsAccepted(t *testing.T) {
	t.Parallel()
	capability := gatewaytest.NewCapability("first")
	manifest := writeConfig(t, manifestOf("allow"))
	url, posts := channels(t)
	change := fmt.Sprintf(changeConfig, url, writeConfig(t, strings.Repeat("secret", 5)), writeConfig(t, url+"/slack"))
	file := writeConfig(t, strings.Replace(configOf(change, capability.Serve(t, call.Doc).Addr), "policy: allow",
		"manifest: "+manifest, 1))
	p, public, admin := serve(t, nil, "--config", file)
	client := dial(t, public)
	until(t, client, "", gatewaytest.Echo, codes.OK)
	text := manifestOf("allow")
	changed := strings.Replace(text, "description: ", "description: Changed. ", 1)
	if changed == text {
		t.Fatal("nothing has changed")
	}
	check.Must(t, os.WriteFile(manifest, []byte(changed), 0o600))
	until(t, client, "", gatewaytest.Echo, codes.FailedPrecondition)
	approverSeesTheChange(t, public, admin)
	noticesTellTheChange(t, posts)
	exit, out, errs := capgateCatalog(t, admin, "list")
	if exit != 0 || !regexp.MustCompile(`(?m)^caps +\d+ +1 +manifest +- +-$`).MatchString(out) {
		t.Errorf("list: %d %s%s", exit, out, errs)
	}
	_, out, errs = capgateCatalog(t, admin, "show", "caps")
	found := regexp.MustCompile(`(?m)^` + gatewaytest.Echo +
		` +allow +drifted +([0-9a-f]{64}) +Changed`).FindStringSubmatch(out)
	if found == nil {
		t.Fatalf("show: %s%s", out, errs)
	}
	if exit, _, errs := capgateCatalog(t, admin, "accept", "caps", gatewaytest.Echo,
		strings.Repeat("0", 64)); exit != exitRefused || !strings.Contains(errs, "TOOL_CHANGED") {
		t.Errorf("another hash: %d %s", exit, errs)
	}
	if exit, out, errs := capgateCatalog(t, admin, "accept", "caps", gatewaytest.Echo, found[1]); exit != 0 ||
		out != "accepted: echo of caps\n" {
		t.Errorf("accept: %d %s%s", exit, out, errs)
	}
	until(t, client, "", gatewaytest.Echo, codes.OK)
	for _, args := range [][]string{{"discover", "caps"}, {"show", "none"}} {
		if exit, _, errs := capgateCatalog(t, admin, args...); exit != exitRefused {
			t.Errorf("%q: %d %s", args, exit, errs)
		}
	}
	for _, args := range [][]string{nil, {"what"}, {"show"}, {"list", "caps"}, {"accept", "a", "b", "c", "d"}} {
		if exit, _, _ := capgateCatalog(t, admin, args...); exit != exitUsage {
			t.Errorf("%q: %d", args, exit)
		}
	}
	p.stop(t)
}

// changeOfEcho is the change of the tool that approvers see.
const changeOfEcho = "it has changed since its version was accepted:\ndescription:\n+ Changed. d\n- d"

// noticesTellTheChange reads the posts of a webhook and of Slack until one of each contains the change.
func noticesTellTheChange(t *testing.T, posts <-chan channelPost) {
	t.Helper()
	inJSON, err := json.Marshal(changeOfEcho)
	check.Must(t, err)
	wants := map[string]string{
		"/signed": `"tool_change":` + string(inJSON),
		"/slack":  `*Tool changed*\n` + "`" + strings.ReplaceAll(changeOfEcho, "\n", `\\n`) + "`",
	}
	for len(wants) > 0 {
		got := check.Received(t, posts, fmt.Sprintf("posts with %q", wants))
		if want, open := wants[got.path]; open && strings.Contains(strings.ReplaceAll(got.body, `": "`, `":"`), want) {
			delete(wants, got.path)
		}
	}
}

// approverSeesTheChange calls a changed tool until its approval contains the change, in the API and on the
// command line.
func approverSeesTheChange(t *testing.T, public, admin string) {
	t.Helper()
	var found capgatepb.Approval
	n := 0
	check.Until(t, "an approval that says what has changed", func() (bool, string) {
		n++
		resp, err := clienttest.HTTP.Post("http://"+public+"/v1/capabilities/caps/invoke", "application/json",
			strings.NewReader(fmt.Sprintf(`{"tool_name":"echo","args":{"n":%d}}`, n)))
		check.Must(t, err)
		check.Must(t, resp.Body.Close())
		var page capgatepb.ListApprovalsResponse
		text := waitPage(t, "http://"+admin+"/v1/approvals?page_size=1", "apr_")
		check.Must(t, protojson.Unmarshal([]byte(text), &page))
		proto.Reset(&found)
		proto.Merge(&found, page.GetApprovals()[0])
		return found.GetToolChange() == changeOfEcho, text
	})
	_, out, errs := runProgram(t, []string{"CAPGATE_ADMIN=" + admin}, "approvals", "show", found.GetId())
	if !strings.Contains(out, "tool changed:\n  "+strings.ReplaceAll(changeOfEcho, "\n", "\n  ")) {
		t.Errorf("%s%s", out, errs)
	}
}

// TestToolsOfAProcessAreDiscovered: a backend's tools are discovered when it is first healthy.
func TestToolsOfAProcessAreDiscovered(t *testing.T) {
	t.Parallel()
	capability := gatewaytest.NewCapability("first")
	capability.Lists = func() ([]byte, string, error) {
		return []byte(`[{"name": "echo", "description": "repeats", "input_schema": {}, "recommended_policy": "allow"}]`),
			"", nil
	}
	manifest := writeConfig(t, "id: caps\nimage: x\ntool_source: dynamic\n")
	file := writeConfig(t, strings.Replace(configOf("", capability.Serve(t, call.Doc).Addr), "policy: allow",
		"manifest: "+manifest, 1))
	p, public, admin := serve(t, nil, "--config", file)
	until(t, dial(t, public), "", gatewaytest.Echo, codes.OK)
	if exit, out, errs := capgateCatalog(t, admin, "discover", "caps"); exit != 0 ||
		!strings.Contains(out, "echo  allow        accepted") {
		t.Errorf("discover: %d %s%s", exit, out, errs)
	}
	p.stop(t)
}
