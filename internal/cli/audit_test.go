package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"google.golang.org/grpc/metadata"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/clienttest"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	"github.com/capgate/capgate/internal/testkit/redistest"
	docpb "github.com/capgate/capgate/proto/selu/capability"
)

// TestChangesAreAudited: changes of rules, tenants and keys, and answers to approvals, are recorded with their
// actor.
func TestChangesAreAudited(t *testing.T) {
	t.Parallel()
	redis, backend := redistest.Start(t), gatewaytest.NewCapability("one").Serve(t, call.Doc).Addr
	log := filepath.Join(t.TempDir(), "audit.log")
	file := writeConfig(t, strings.Replace(configOf("audit: {to: "+log+
		"}\nidentity: {store: redis}\npolicies: {}\n"+patientRedis(redis.URL()), backend), "policy: allow",
		"policy: ask", 1))
	p, public, admin := serve(t, nil, "--config", file)
	program := func(args ...string) string {
		t.Helper()
		exit, stdout, stderr := runProgram(t, nil, append(args, "--admin", admin)...)
		if exit != 0 {
			t.Fatal(args, exit, stdout, stderr)
		}
		return stdout
	}
	program("tenants", "create", "acme", "--capabilities", "*")
	made := program("keys", "create", "acme")
	credential := regexp.MustCompile(`cg_[a-z2-7]{16}_[a-z2-7]{32}`).FindString(made)
	ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+credential)
	_, err := dial(t, public).Invoke(ctx,
		&docpb.InvokeRequest{CapabilityId: "caps", ToolName: gatewaytest.Echo, ArgsJson: []byte(`{}`)})
	id := clienttest.Metadata(err, "approval")
	program("approvals", "approve", id, "--tenant", "acme", "--by", "ann")
	program("policy", "set", "caps", gatewaytest.Echo, "allow", "--tenant", "acme")
	program("policy", "rm", "caps", gatewaytest.Echo, "--tenant", "acme")
	program("keys", "revoke", "acme", credential[3:19])
	p.stop(t)
	text, err := os.ReadFile(log)
	check.Must(t, err)
	for _, want := range []string{
		`"actor":"operator","what":"tenant.made","tenant":"acme"`, `"what":"key.made","tenant":"acme","key":"` +
			credential[3:19],
		`"actor":"ann","what":"approval.approved","tenant":"acme","approval":"` +
			id, `"what":"rule.set","tenant":"acme","capability":"caps","tool":"echo","policy":"allow"`,
		`"what":"rule.deleted","tenant":"acme"`, `"what":"key.revoked","tenant":"acme"`,
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("there is no %s", want)
		}
	}
	if strings.Contains(string(text), credential[20:]) || t.Failed() {
		t.Error(string(text))
	}
}

// TestAuditOfTheFile: after its audit log was rotated, a process continues in a new file, and audit verify
// reads both.
func TestAuditOfTheFile(t *testing.T) {
	t.Parallel()
	backend := gatewaytest.NewCapability("one").Serve(t, call.Doc).Addr
	dir := t.TempDir()
	log, old, file := filepath.Join(dir, "audit.log"), filepath.Join(dir, "audit.log.1"),
		filepath.Join(dir, "capgate.yaml")
	check.Must(t, os.WriteFile(file, []byte(configOf("audit: {to: "+log+", required: true}", backend)), 0o600))
	p, public, admin := serve(t, nil, "--config", file)
	client := dial(t, public)
	check.Must(t, check.Received(t, invoke(client, gatewaytest.Echo), "the answer"))
	waitPage(t, "http://"+admin+"/metrics", "capgate_audit_records_total 2")
	check.Must(t, os.Rename(log, old))
	p.signal(t, syscall.SIGHUP)
	p.stderr.wait(t, p, `"msg":"audit log reopened"`)
	check.Must(t, check.Received(t, invoke(client, gatewaytest.Echo), "the answer"))
	// one is of the configuration, in either file
	waitPage(t, "http://"+admin+"/metrics", "capgate_audit_records_total 5")
	waitPage(t, "http://"+admin+"/metrics", `capgate_audit_lost_total{reason="queue_full"} 0`)
	p.stop(t)
	exit, stdout, stderr := runProgram(t, nil, "audit", "verify", old, log)
	if exit != 0 || !strings.Contains(stdout, "audit.log.1: whole: ") ||
		!strings.Contains(stdout, "audit.log: whole: ") || !strings.Contains(stdout, " to 5, ") {
		t.Error(exit, stdout, stderr)
	}
	files := func() (found []auditFile) {
		_, stdout, _ := runProgram(t, nil, "audit", "verify", "-o", "json", old, log)
		for line := range strings.Lines(stdout) {
			var of auditFile
			check.Must(t, json.Unmarshal([]byte(line), &of))
			found = append(found, of)
		}
		return found
	}
	if of := files(); len(of) != 2 || !of[0].Intact || !of[1].Intact || of[1].Last != 5 || len(of[1].SHA256) != 64 {
		t.Errorf("got %+v", of)
	}
	text, err := os.ReadFile(old)
	check.Must(t, err)
	check.Must(t, os.WriteFile(old, []byte(strings.Replace(string(text), `"code":"OK"`, `"code":"NOT_FOUND"`, 1)),
		0o600))
	exit, stdout, stderr = runProgram(t, nil, "audit", "verify", old, log)
	if exit != 1 || !strings.Contains(stdout, " was written after another record") {
		t.Error(exit, stdout, stderr)
	}
	if of := files(); len(of) != 2 || of[1].Intact || of[1].Line != 1 || of[1].Why == "" || of[1].SHA256 != "" {
		t.Errorf("got %+v", of)
	}
	for _, line := range [][]string{{"audit"}, {"audit", "check", old}, {"audit", "verify", "/nowhere"}} {
		if exit, _, stderr := runProgram(t, nil, line...); exit != exitUsage || stderr == "" {
			t.Error(line, exit, stderr)
		}
	}
	check.Must(t, os.WriteFile(file, []byte(configOf("audit: {to: "+filepath.Join(dir, "no", "where")+"}", backend)),
		0o600))
	if exit, _, stderr := runProgram(t, nil, "serve", "--config", file); exit != 1 ||
		!strings.Contains(stderr, "audit: open ") {
		t.Error(exit, stderr)
	}
}
