package deploy

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/clienttest"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	"github.com/capgate/capgate/internal/testkit/redistest"
)

const drillsConfig = `
listen: 127.0.0.1:0
admin: 127.0.0.1:0
redis: {url: '$redis', timeout: 1s}
replicas: {heartbeat: 500ms}
approvals: {notices: [{name: webhook, url: '$webhook', secret_file: '$dir/secret'}]}
shields: [{name: main, address: '$shield', timeout: 1s, on_failure: allow}]
fleets:
  - {capability: weather, policy: allow, health: {interval: 200ms, timeout: 200ms}, backends: ['$one', '$two']}
  - {capability: people, policy: ask, backends: ['$calm']}
  - {capability: shielded, policy: allow, shield: main, backends: ['$calm']}
`

// drills is a gateway with its dependencies, and a Prometheus that scrapes it.
type drills struct {
	t             *testing.T
	prometheus    *prometheus
	gateway       *process
	public, admin string
	file          string // the configuration
	redis         *redistest.Server
	weather       []*process  // the backends of the fleet weather
	shield        func()      // stops the Shield
	accepts       atomic.Bool // whether the webhook's receiver accepts
	exprs         map[string]string
	books         map[string]runbook
}

// TestDrills breaks the conditions that alerts watch, one after another. Each alert's expression is false before and
// becomes true, the commands of its runbook show the cause, and the expression becomes false after the repair.
func TestDrills(t *testing.T) {
	t.Parallel()
	d := startDrills(t)
	signal := func(s syscall.Signal) {
		for _, p := range d.weather {
			check.Must(t, p.cmd.Process.Signal(s))
		}
	}
	for _, test := range []struct {
		alert        string
		fail, repair func() // repair is nil if the fault cannot be repaired
	}{
		{"CapgateFleetPanic", func() { signal(syscall.SIGSTOP) }, func() { signal(syscall.SIGCONT) }},
		{"CapgateWebhookDeadLetters", func() { check.Must(t, d.call("people")) }, d.retryDeadLetters},
		{"CapgateShieldFails", d.shield, nil},
		{"CapgateConfigReloadFailed", func() { d.edit("policy: ask", "policy: aks") },
			func() { d.edit("policy: aks", "policy: ask") }},
		{"CapgateRedisAway", d.redis.Kill, d.redis.Restart},
		{"CapgateFleetWithoutBackends", func() { signal(syscall.SIGKILL) }, nil},
		{"CapgateReplicaGone", func() { check.Must(t, d.gateway.cmd.Process.Kill()) }, nil},
	} {
		d.waitFor(test.alert, false)
		test.fail()
		d.waitFor(test.alert, true)
		d.books[test.alert].drill(t, test.alert, d.admin)
		if test.repair != nil {
			test.repair()
			d.waitFor(test.alert, false)
		}
		if t.Failed() {
			return
		}
	}
}

func startDrills(t *testing.T) *drills {
	t.Helper()
	d := &drills{t: t, redis: redistest.Start(t), exprs: map[string]string{}, books: map[string]runbook{}}
	for _, a := range readAlerts(t) {
		d.exprs[a.Alert] = strings.ReplaceAll(a.Expr, "[5m]", "[5s]")
	}
	for _, page := range readRunbooks(t) {
		for name, r := range page {
			d.books[name] = r
		}
	}
	dir := t.TempDir()
	check.Must(t, os.WriteFile(filepath.Join(dir, "secret"), []byte(strings.Repeat("a secret of the tests ", 3)),
		0o600))
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if !d.accepts.Load() {
			w.WriteHeader(http.StatusGone) // the gateway does not retry
		}
	}))
	t.Cleanup(receiver.Close)
	var shield string
	shield, d.shield = serveShield(t)
	config := map[string]string{"redis": d.redis.URL(), "webhook": receiver.URL, "dir": dir, "shield": shield,
		"calm": gatewaytest.NewCapability("calm").Serve(t, call.Doc).Addr}
	program := filepath.Join(dir, "weather")
	command(t, "go", "build", "-trimpath", "-buildvcs=false", "-o", program, "../examples/weather/cmd/weather")
	for _, name := range []string{"one", "two"} {
		p := start(t, program, "--listen", "127.0.0.1:0")
		_, addr, _ := strings.Cut(p.wait(t, "\n"), "serving on ")
		config[name] = strings.TrimSpace(addr)
		d.weather = append(d.weather, p)
	}
	d.file = filepath.Join(dir, "capgate.yaml")
	check.Must(t, os.WriteFile(d.file,
		[]byte(os.Expand(drillsConfig, func(name string) string { return config[name] })),
		0o600))
	d.gateway = start(t, capgate, "serve", "--config", d.file)
	log := d.gateway.wait(t, `"msg":"serving"`)
	d.public, d.admin = attribute(log, "listen"), attribute(log, "admin")
	check.Succeeds(t, "calls", func() error { return d.call("weather") })
	d.prometheus = startPrometheus(t, []string{d.admin})
	return d
}

// call calls a tool that the capability does not have.
func (d *drills) call(capability string) error {
	resp, err := clienttest.HTTP.Post("http://"+d.public+"/v1/capabilities/"+capability+"/invoke", "application/json",
		strings.NewReader(`{"tool_name":"none"}`))
	if err != nil {
		return err
	}
	_ = resp.Body.Close()
	return nil
}

// edit replaces text of the configuration.
func (d *drills) edit(old, new string) {
	text, err := os.ReadFile(d.file)
	check.Must(d.t, err)
	next := d.file + ".new"
	check.Must(d.t, os.WriteFile(next, []byte(strings.Replace(string(text), old, new, 1)), 0o600))
	check.Must(d.t, os.Rename(next, d.file))
}

// retryDeadLetters delivers them to a receiver that accepts them.
func (d *drills) retryDeadLetters() {
	d.accepts.Store(true)
	command(d.t, "sh", "-c", `curl -sf "$1/v1/webhooks/dead" | grep -o '"id":"[^"]*"' | cut -d'"' -f4 |
		while read -r id; do curl -sf -X POST "$1/v1/webhooks/dead/$id:retry"; done`, "sh", d.admin)
}

// waitFor waits until an alert's expression has a value, or until it has none. Calls continue meanwhile.
func (d *drills) waitFor(alert string, want bool) {
	d.t.Helper()
	check.Succeeds(d.t, fmt.Sprintf("%s: %v", alert, want), func() error {
		_ = d.call("shielded")
		all, err := d.prometheus.query(d.exprs[alert])
		if err == nil && len(all) > 0 != want {
			err = fmt.Errorf("%s has %d values", d.exprs[alert], len(all))
		}
		return err
	})
}

// shell returns a command for sh, with capgate in its PATH.
func shell(t *testing.T, text string) *exec.Cmd {
	t.Helper()
	return exec.CommandContext(t.Context(), "sh", "-c", `PATH="$1:$PATH"`+"\n"+text, "sh", filepath.Dir(capgate))
}
