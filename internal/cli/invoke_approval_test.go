package cli

import (
	"bytes"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/status"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/clienttest"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
)

// askingGateway is a gateway whose calls all require approval.
type askingGateway struct {
	capability    *gatewaytest.Capability
	public, admin string
}

func startOneAsking(t *testing.T) *askingGateway {
	t.Helper()
	g := &askingGateway{capability: gatewaytest.NewCapability("one")}
	file := writeConfig(t, strings.Replace(configOf("policies: {}\n"+patientRedis(""),
		g.capability.Serve(t, call.Doc).Addr), "policy: allow", "policy: ask", 1))
	_, g.public, g.admin = serve(t, nil, "--config", file)
	return g
}

func (g *askingGateway) line(more ...string) []string {
	return append([]string{"invoke", "--addr", g.public, "caps", gatewaytest.Echo}, more...)
}

func (g *askingGateway) answer(t *testing.T, words ...string) {
	t.Helper()
	if exit, _, stderr := capgateApprovals(t, g.admin, words...); exit != 0 {
		t.Fatalf("approvals %v: %d, %s", words, exit, stderr)
	}
}

func approvalID(t *testing.T, text string) string {
	t.Helper()
	id := regexp.MustCompile(`apr_[A-Z2-7]{26}`).FindString(text)
	if id == "" {
		t.Fatalf("no approval is named: %s", text)
	}
	return id
}

// TestInvokeAsksForApproval: a call that requires approval does not run, the output shows how to approve it,
// and then it runs once.
func TestInvokeAsksForApproval(t *testing.T) {
	t.Parallel()
	g := startOneAsking(t)
	for _, mode := range [][]string{nil, {"--stream"}} {
		as := append([]string{`{"n":1}`, "--user", "ann", "--agent", "bot"}, mode...)
		seen := len(g.capability.Seen())
		exit, out, errs := runProgram(t, nil, g.line(as...)...)
		id := approvalID(t, errs)
		if exit != exitRefused || out != "" || !strings.Contains(errs, "capgate approvals approve "+id) ||
			!strings.Contains(errs, "--approval "+id) || !strings.Contains(errs, "/v1/approvals/"+id) {
			t.Errorf("%d %s%s", exit, out, errs)
		}
		if _, out, _ := capgateApprovals(t, g.admin, "show", id); !strings.Contains(out, "user         ann") ||
			!strings.Contains(out, "agent        bot") {
			t.Errorf("got %s", out)
		}
		if exit, _, errs = runProgram(t, nil, g.line(append(as, "--approval", id)...)...); exit != exitRefused ||
			!strings.Contains(errs, "APPROVAL_PENDING") {
			t.Errorf("got %d %s", exit, errs)
		}
		g.answer(t, "approve", id)
		if exit, _, errs = runProgram(t, nil, g.line(append(as, "--approval", id)...)...); exit != 0 {
			t.Errorf("got %d %s", exit, errs)
		}
		if exit, _, errs = runProgram(t, nil, g.line(append(as, "--approval", id)...)...); exit != exitRefused ||
			!strings.Contains(errs, "APPROVAL_USED") {
			t.Errorf("got %d %s", exit, errs)
		}
		if n := len(g.capability.Seen()) - seen; n != 1 {
			t.Errorf("it ran %d times", n)
		}
	}
}

// TestInvokeWaits: --wait runs the call once when it is approved, and prints the reason of a denial.
func TestInvokeWaits(t *testing.T) {
	t.Parallel()
	g := startOneAsking(t)
	waiting := start(t, nil, g.line(`{"n":1}`, "--user", "ann", "--wait")...)
	id := approvalID(t, waiting.stderr.wait(t, waiting, "waiting for the approval"))
	if len(g.capability.Seen()) != 0 {
		t.Error("the call ran before it was approved")
	}
	g.answer(t, "approve", id)
	if exit := waiting.wait(t); exit != 0 || !strings.Contains(waiting.stdout.String(), `"n": 1`) ||
		len(g.capability.Seen()) != 1 {
		t.Errorf("%d, %s%s, %d calls", exit, waiting.stdout.String(), waiting.stderr.String(), len(g.capability.Seen()))
	}

	// A call that names its approval waits too.
	_, _, errs := runProgram(t, nil, g.line(`{"n":2}`)...)
	id = approvalID(t, errs)
	waiting = start(t, nil, g.line(`{"n":2}`, "--wait", "--approval", id)...)
	waiting.stderr.wait(t, waiting, "waiting for the approval")
	g.answer(t, "deny", id, "--comment", "not \u202egnp.exe\x1b[2J today")
	if exit := waiting.wait(t); exit != exitRefused || !strings.Contains(waiting.stderr.String(), "APPROVAL_DENIED") ||
		!strings.Contains(waiting.stderr.String(), "not \ufffdgnp.exe\ufffd[2J today") {
		t.Errorf("got %d %s", exit, waiting.stderr.String())
	}

	exit, _, errs := runProgram(t, nil, g.line(`{"n":3}`, "--wait", "--wait-timeout", "1ms")...)
	if exit != exitRefused || !strings.Contains(errs, "APPROVAL_REQUIRED") {
		t.Errorf("got %d %s", exit, errs)
	}
	if strings.Contains(errs, "--wait instead") {
		t.Errorf("--wait is recommended although it was given: %s", errs)
	}
	exit, _, errs = runProgram(t, nil, g.line(`{"n":4}`, "--wait=1ms")...)
	if exit != exitRefused || !strings.Contains(errs, "APPROVAL_REQUIRED") {
		t.Errorf("got %d %s", exit, errs)
	}
	for _, wrong := range []struct {
		flags []string
		part  string
	}{
		{[]string{"--wait", "60s"}, "--wait=60s"},
		{[]string{"--wait=soon"}, "want a duration, as in 30s"},
		{[]string{"--wait=-1s"}, "want a duration, as in 30s"},
		{[]string{"--wait=1s", "--wait-timeout", "2s"}, "not both"},
		{[]string{"--wait-timeout", "2s"}, "requires --wait"},
	} {
		if exit, _, errs := runProgram(t, nil, g.line(append(wrong.flags, `{"n":5}`)...)...); exit != exitUsage ||
			!strings.Contains(errs, wrong.part) {
			t.Errorf("%q: %d %s", wrong.flags, exit, errs)
		}
	}
	if n := len(g.capability.Seen()); n != 1 {
		t.Errorf("%d calls ran", n)
	}
}

// TestReasonOfADenialReachesTheCaller: over gRPC and JSON the caller gets the approver's comment, bounded and
// without characters that move the cursor or reverse a line, also for a denial that applies to its session.
func TestReasonOfADenialReachesTheCaller(t *testing.T) {
	t.Parallel()
	g := startOneAsking(t)
	client := dial(t, g.public)
	comment, want := "ask \u2066Bob\x07 first"+strings.Repeat(" please", 100), "ask \ufffdBob\ufffd first please"
	denied := func(what string, err error) {
		t.Helper()
		for _, d := range status.Convert(err).Details() {
			if info, ok := d.(*errdetails.ErrorInfo); ok && info.GetReason() == "APPROVAL_DENIED" {
				if got := info.GetMetadata()["comment"]; strings.HasPrefix(got, want) && len(got) <= 520 &&
					strings.Contains(status.Convert(err).Message(), want) {
					return
				}
			}
		}
		t.Errorf("%s: %v, %v", what, err, status.Convert(err).Details())
	}
	id := asked(t, client, "ann", `{"n":1}`)
	g.answer(t, "deny", id, "--comment", comment)
	_, err := invokeAs(t, client, "ann", `{"n":1}`)
	denied("asked again", err)
	_, err = invokeAs(t, client, "ann", `{"n":1}`, "x-approval-id", id)
	denied("with its approval", err)

	for _, header := range []string{"", id} {
		req, err := http.NewRequestWithContext(t.Context(), "POST",
			"http://"+g.public+"/v1/capabilities/caps/invoke",
			bytes.NewReader([]byte(`{"tool_name":"echo","args":{"n":1}}`)))
		check.Must(t, err)
		req.Header.Set("X-User-Id", "ann")
		if header != "" {
			req.Header.Set("X-Approval-Id", header)
		}
		resp, err := clienttest.HTTP.Do(req)
		check.Must(t, err)
		text, err := io.ReadAll(resp.Body)
		check.Must(t, err)
		resp.Body.Close()
		if resp.StatusCode != http.StatusForbidden || !strings.Contains(string(text), `"comment":"`+want) {
			t.Errorf("got %d %s", resp.StatusCode, text)
		}
	}

	// For a session: from Redis, and then from the cache.
	exit, _, errs := runProgram(t, nil, g.line(`{"n":2}`, "--user", "ann", "--session", "s1")...)
	if exit != exitRefused {
		t.Fatal(exit, errs)
	}
	g.answer(t, "deny", approvalID(t, errs), "--remember", "session", "--comment", comment)
	for _, args := range []string{`{"n":3}`, `{"n":4}`} {
		exit, _, errs = runProgram(t, nil, g.line(args, "--user", "ann", "--session", "s1")...)
		if exit != exitRefused || !strings.Contains(errs, want) || !strings.Contains(errs, "for this session") {
			t.Errorf("got %d %s", exit, errs)
		}
	}
}
