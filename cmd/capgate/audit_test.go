package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/gatewaytest"
)

// TestAuditOfTheFile: a process records, goes on in another file when it is told that this one was
// moved, and audit verify follows both.
func TestAuditOfTheFile(t *testing.T) {
	t.Parallel()
	backend := gatewaytest.NewCapability("one").Serve(t, call.Doc).Addr
	dir := t.TempDir()
	log, old, file := filepath.Join(dir, "audit.log"), filepath.Join(dir, "audit.log.1"), filepath.Join(dir, "capgate.yaml")
	must(t, os.WriteFile(file, []byte(configOf("audit: {to: "+log+", required: true}", backend)), 0o600))
	p, public, admin := serve(t, nil, "--config", file)
	client := dial(t, public)
	must(t, <-invoke(client, gatewaytest.Echo))
	must(t, os.Rename(log, old))
	p.signal(t, syscall.SIGHUP)
	p.stderr.wait(t, p, `"msg":"the audit log was opened again"`)
	must(t, <-invoke(client, gatewaytest.Echo))
	waitPage(t, "http://"+admin+"/metrics", "capgate_audit_records_total 4")
	waitPage(t, "http://"+admin+"/metrics", `capgate_audit_lost_total{reason="queue_full"} 0`)
	p.stop(t)
	exit, stdout, stderr := runProgram(t, nil, "audit", "verify", old, log)
	if exit != 0 || !strings.Contains(stdout, "audit.log.1: whole: 2 records, 1 to 2, ") || !strings.Contains(stdout, "audit.log: whole: 2 records, 3 to 4, ") {
		t.Error(exit, stdout, stderr)
	}
	text, err := os.ReadFile(old)
	must(t, err)
	must(t, os.WriteFile(old, []byte(strings.Replace(string(text), `"code":"OK"`, `"code":"NOT_FOUND"`, 1)), 0o600))
	exit, stdout, stderr = runProgram(t, nil, "audit", "verify", old, log)
	if exit != 1 || !strings.Contains(stdout, "audit.log:1: record 3 was written after another record") {
		t.Error(exit, stdout, stderr)
	}
	for _, line := range [][]string{{"audit"}, {"audit", "check", old}, {"audit", "verify", "/nowhere"}} {
		if exit, _, stderr := runProgram(t, nil, line...); exit != exitUsage || stderr == "" {
			t.Error(line, exit, stderr)
		}
	}
	must(t, os.WriteFile(file, []byte(configOf("audit: {to: "+filepath.Join(dir, "no", "where")+"}", backend)), 0o600))
	if exit, _, stderr := runProgram(t, nil, "serve", "--config", file); exit != 1 || !strings.Contains(stderr, "audit: open ") {
		t.Error(exit, stderr)
	}
}
