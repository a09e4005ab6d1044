package cli

import (
	"encoding/json"
	"fmt"
	"net/http"
	"syscall"

	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/testkit/clienttest"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	docpb "github.com/capgate/capgate/proto/selu/capability"
)

// twoTenants is a gateway with acme in its file and globex in Redis, whose tool echo requires approval.
type twoTenants struct {
	program       *program
	public, admin string
	client        docpb.CapabilityClient
	keys          map[string]string // of acme and globex
}

func startTenants(t *testing.T) *twoTenants {
	t.Helper()
	manifest := writeConfig(t, manifestOf("ask"))
	key, entry := makeKey(t)
	text := "policies: {}\n" + patientRedis("") +
		"\nidentity: {store: redis}\ntenants: [{id: acme, capabilities: ['*'], keys: [" +
		strings.Replace(entry, "{", "{asserts: [user, agent], scopes: [invoke, read], ", 1) + "]}]"
	file := writeConfig(t, strings.Replace(configOf(text, gatewaytest.NewCapability("one").Serve(t, call.Doc).Addr),
		"policy: allow", "manifest: "+manifest, 1))
	w := &twoTenants{keys: map[string]string{"acme": key}}
	w.program, w.public, w.admin = serve(t, nil, "--config", file)
	w.client = dial(t, w.public)
	w.run(t, 0, "tenants", "create", "globex", "--capabilities", "*")
	w.keys["globex"] = strings.TrimSpace(w.run(t, 0, "keys", "create", "globex", "--asserts", "user,agent"))
	return w
}

// run runs capgate at the admin API and returns all its output.
func (w *twoTenants) run(t *testing.T, want int, words ...string) string {
	t.Helper()
	exit, stdout, stderr := runProgram(t, []string{"CAPGATE_ADMIN=" + w.admin}, words...)
	if exit != want {
		t.Fatalf("capgate %s: %d, %s%s", strings.Join(words, " "), exit, stdout, stderr)
	}
	return stdout + stderr[:len(stderr)*min(want, 1)]
}

// ask makes a call that requires approval, and returns the approval.
func (w *twoTenants) ask(t *testing.T, of, args string) string {
	t.Helper()
	_, err := invokeAs(t, w.client, "ann", args, "authorization", "Bearer "+w.keys[of])
	id := clienttest.Metadata(err, "approval")
	if id == "" {
		t.Fatalf("no approval was created: %v", err)
	}
	return id
}

// TestOperatorsOfTenants: without --tenant, the command line reads the data of all tenants and finds an
// approval of any tenant, but changes nothing.
func TestOperatorsOfTenants(t *testing.T) {
	t.Parallel()
	w := startTenants(t)
	watching := start(t, []string{"CAPGATE_ADMIN=" + w.admin}, "approvals", "watch")
	// Repeated until the watch reports an event: its start is not synchronized.
	first := w.ask(t, "acme", `{"n":0}`)
	for n := 1; !strings.Contains(watching.stdout.String(), "asked"); n++ {
		w.ask(t, "acme", fmt.Sprintf(`{"n":%d.5}`, n))
		waitPage(t, "http://"+w.admin+"/metrics", "capgate_approvals")
	}
	second := w.ask(t, "globex", `{"n":"second"}`)
	watching.stdout.wait(t, watching, "asked     "+second)

	list := w.run(t, 0, "approvals", "list")
	if !strings.Contains(list, first) || !strings.Contains(list, second) || !strings.Contains(list, "globex") {
		t.Errorf("got %s", list)
	}
	if rows := strings.Split(list, "\n"); !strings.HasPrefix(rows[1], second) {
		t.Errorf("the newest is not first: %s", list)
	}
	if one := w.run(t, 0, "approvals", "list", "--tenant", "globex"); strings.Contains(one, first) ||
		!strings.Contains(one, second) {
		t.Errorf("got %s", one)
	}
	if all := w.run(t, 0, "approvals", "list", "--tenant", "-"); !strings.Contains(all, first) ||
		!strings.Contains(all, second) {
		t.Errorf("got %s", all)
	}
	if text := w.run(t, 1, "approvals", "list", "--tenant", "globx"); !strings.Contains(text,
		`did you mean "globex"?`) || !strings.Contains(text, "TENANT_UNKNOWN") {
		t.Error(text)
	}
	if text := w.run(t, 0, "approvals", "show", second); !strings.Contains(text, "tenant       globex") {
		t.Error(text)
	}
	if text := w.run(t, 1, "approvals", "show", "apr_AAAAAAAAAAAAAAAAAAAAAAAAAA"); !strings.Contains(text,
		"APPROVAL_UNKNOWN") {
		t.Error(text)
	}
	w.run(t, 0, "approvals", "approve", second)
	watching.stdout.wait(t, watching, "approved  "+second)
	if _, err := invokeAs(t, w.client, "ann", `{"n":"second"}`, "authorization", "Bearer "+w.keys["globex"],
		"x-approval-id", second); err != nil {
		t.Error(err)
	}
	w.run(t, 0, "approvals", "deny", first, "--by", "Zoe")
	if list = w.run(t, 0, "approvals", "list", "--state", "denied"); !strings.Contains(list, "ANSWERED BY") ||
		!strings.Contains(list, "  Zoe  ") {
		t.Errorf("got %s", list)
	}

	if keys := w.run(t, 0, "keys", "list", "-"); !strings.Contains(keys, w.keys["acme"][3:19]) ||
		!strings.Contains(keys, w.keys["globex"][3:19]) {
		t.Errorf("got %s", keys)
	}
	if text := w.run(t, 0, "keys", "revoke", "-", w.keys["globex"][3:19]); !strings.Contains(text, "of globex") {
		t.Error(text)
	}
	if text := w.run(t, 1, "keys", "list", "acmee"); !strings.Contains(text, `did you mean "acme"?`) {
		t.Error(text)
	}
	watching.signal(t, syscall.SIGINT)
}

// TestRulesOfTenants: a rule needs a tenant, and one that applies to nothing is rejected.
func TestRulesOfTenants(t *testing.T) {
	t.Parallel()
	w := startTenants(t)
	for _, test := range []struct {
		words  []string
		reason string
		want   []string
	}{
		{[]string{"set", "caps", "echo", "allow"}, "TENANT_REQUIRED", []string{"--tenant", "acme, globex"}},
		{[]string{"rm", "caps", "echo"}, "TENANT_REQUIRED", []string{"acme, globex"}},
		{[]string{"explain", "caps", "echo"}, "TENANT_REQUIRED", []string{"acme, globex"}},
		{[]string{"set", "caps", "echo", "allow", "--tenant", "default"}, "TENANT_UNKNOWN", []string{"acme, globex"}},
		{[]string{"set", "caps", "echo", "allow", "--tenant", "acm"}, "TENANT_UNKNOWN",
			[]string{`did you mean "acme"?`}},
		{[]string{"set", "cap", "echo", "allow", "--tenant", "acme"}, "CAPABILITY_UNKNOWN",
			[]string{`did you mean "caps"?`}},
		{[]string{"set", "caps", "ecoh", "allow", "--tenant", "acme"}, "TOOL_UNKNOWN",
			[]string{`did you mean "echo"?`, "has: echo", "--force"}},
		{[]string{"set", "*", "ecoh", "block", "--global"}, "TOOL_UNKNOWN", []string{`did you mean "echo"?`}},
		{[]string{"explain", "caps", "ecoh", "--tenant", "acme"}, "TOOL_UNKNOWN", []string{`did you mean "echo"?`}},
		{[]string{"list", "--tenant", "acm"}, "TENANT_UNKNOWN", []string{`did you mean "acme"?`}},
	} {
		text := w.run(t, 1, append([]string{"policy"}, test.words...)...)
		for _, part := range append(test.want, test.reason) {
			if !strings.Contains(text, part) {
				t.Errorf("%v: %s; want %q", test.words, text, part)
			}
		}
	}
	w.run(t, 0, "policy", "set", "caps", "echo", "allow", "--tenant", "acme")
	w.run(t, 0, "policy", "set", "caps", "later", "block", "--tenant", "globex", "--force")
	w.run(t, 0, "policy", "set", "caps", "*", "allow", "--tenant", "umbrella", "--force")
	if _, err := invokeAs(t, w.client, "ann", "{}", "authorization", "Bearer "+w.keys["acme"]); err != nil {
		t.Error(err)
	}
	ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+w.keys["globex"])
	if _, err := w.client.Invoke(ctx,
		&docpb.InvokeRequest{CapabilityId: "caps", ToolName: "later",
			ArgsJson: []byte("{}")}); status.Code(err) != codes.PermissionDenied {
		t.Errorf("a rule ahead of its tool: %v", err)
	}
	list := strings.Fields(w.run(t, 0, "policy", "list"))
	if !slices.Contains(list, "acme") || !slices.Contains(list, "globex") {
		t.Error(list)
	}
	// Rules of an unknown tenant can be listed and deleted.
	if text := w.run(t, 0, "policy", "list", "--tenant", "umbrella"); !strings.Contains(text, "umbrella") {
		t.Error(text)
	}
	w.run(t, 0, "policy", "rm", "caps", "*", "--tenant", "umbrella")
	if text := w.run(t, 1, "policy", "rm", "caps", "*", "--tenant", "umbrella"); !strings.Contains(text,
		"TENANT_UNKNOWN") {
		t.Error(text)
	}
	w.run(t, 0, "policy", "rm", "caps", "later", "--tenant", "globex")

	// The same over JSON, in pages of one.
	w.run(t, 0, "policy", "set", "caps", "echo", "allow", "--tenant", "globex")
	var tenants []string
	for token, pages := "", 0; pages == 0 || token != ""; pages++ {
		code, body := page(t, "http://"+w.admin+"/v1/policies?tenant=-&page_size=1&page_token="+token)
		var answer struct {
			Policies []struct{ Tenant string }
			Next     string `json:"next_page_token"`
		}
		if err := json.Unmarshal([]byte(body), &answer); err != nil || code != http.StatusOK ||
			len(answer.Policies) > 1 || pages > 5 {
			t.Fatal(code, body, err, answer, pages)
		}
		for _, p := range answer.Policies {
			tenants = append(tenants, p.Tenant)
		}
		token = answer.Next
	}
	if !slices.Equal(tenants, []string{"acme", "globex"}) {
		t.Error(tenants)
	}
	if code, body := page(t, "http://"+w.admin+"/v1/limits?tenant=acm"); code != http.StatusNotFound ||
		!strings.Contains(body, `did you mean \"acme\"?`) {
		t.Error(code, body)
	}
	if code, _ := page(t, "http://"+w.admin+"/v1/limits?tenant=-"); code != http.StatusOK {
		t.Error(code)
	}
}
