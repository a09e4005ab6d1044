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
	"testing"

	"github.com/capgate/capgate/internal/testkit/check"
)

// dependencies returns the services that a service of a compose file depends on, with their conditions.
func dependencies(service any) map[string]any {
	if named := asMap(field(service, "depends_on")); named != nil {
		return named
	}
	all := map[string]any{}
	for _, name := range list(field(service, "depends_on")) {
		all[name] = nil
	}
	return all
}

// checkHealthchecks checks that every service has a health check and is restarted, and that the services that depend on
// it wait until it is healthy.
func checkHealthchecks(t *testing.T, services map[string]any) {
	t.Helper()
	for name, service := range services {
		if len(list(field(service, "healthcheck", "test"))) < 2 || field(service, "restart") != "unless-stopped" {
			t.Errorf("%s: health check %v, restart %v", name, field(service, "healthcheck"), field(service, "restart"))
		}
		for other := range dependencies(service) {
			if got := field(service, "depends_on", other, "condition"); got != "service_healthy" {
				t.Errorf("%s waits until %s is %v", name, other, got)
			}
		}
	}
}

// runHealthcheck runs the health check of a service of compose/compose.yaml, with replacements.
func runHealthcheck(t *testing.T, service string, pairs ...string) error {
	t.Helper()
	_, services := checkCompose(t, "compose/compose.yaml")
	return runHealthcheckOf(t, services, service, pairs...)
}

// runHealthcheckOf runs the health check of a service, with replacements.
func runHealthcheckOf(t *testing.T, services map[string]any, service string, pairs ...string) error {
	t.Helper()
	test := list(field(services[service], "healthcheck", "test"))
	if test[0] == "CMD-SHELL" {
		test = []string{"", "sh", "-c", test[1]}
	}
	args := strings.Split(replace(t, strings.ReplaceAll(strings.Join(test[1:], "\x00"), "$$", "$"), pairs...), "\x00")
	out, err := exec.CommandContext(t.Context(), args[0], args[1:]...).CombinedOutput() //nolint:gosec // of the tree
	if err != nil {
		return fmt.Errorf("%s: %w: %s", service, err, out)
	}
	return nil
}

// TestComposeHealthOfMonitoring: the health check of Prometheus succeeds with a real one, and that of Grafana with a
// stand-in, because Debian has no Grafana. Both fail with a server that is not ready, and without a server.
func TestComposeHealthOfMonitoring(t *testing.T) {
	t.Parallel()
	var ready atomic.Bool
	grafana := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !ready.Load() || r.URL.Path != "/api/health" {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	defer grafana.Close()
	healthy := func(service, port, url string) error {
		return runHealthcheck(t, service, "http://localhost:"+port, url)
	}
	if healthy("prometheus", "9090", grafana.URL) == nil || healthy("grafana", "3000", grafana.URL) == nil {
		t.Error("a server that is not ready is healthy")
	}
	const closed = "http://127.0.0.1:1"
	if healthy("prometheus", "9090", closed) == nil || healthy("grafana", "3000", closed) == nil {
		t.Error("a server that does not run is healthy")
	}
	ready.Store(true)
	check.Must(t, healthy("grafana", "3000", grafana.URL))
	check.Must(t, healthy("prometheus", "9090", startPrometheus(t, nil).url))
}

// TestComposeHealth: the health checks of the gateway, the capability and Redis succeed with real ones, and fail
// without them. TestHaproxy runs that of haproxy.
func TestComposeHealth(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	acl, err := os.ReadFile("redis/compose.acl")
	check.Must(t, err)
	for name, text := range map[string]string{"password": "hunter2\n", "other": "hunter3\n",
		"users.acl": replace(t, string(acl), "@PASSWORD@", "hunter2")} {
		check.Must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	_, port, _ := strings.Cut(startRedis(t, dir+"/users.acl"), ":")
	ping := func(file string) error {
		return runHealthcheck(t, "redis", "/run/secrets/redis_password", dir+"/"+file, "redis-cli",
			"redis-cli -p "+port)
	}
	check.Succeeds(t, "the health check of Redis", func() error { return ping("password") })
	if ping("other") == nil {
		t.Error("Redis is healthy with another password")
	}

	weather := weatherAlone(t)
	file := filepath.Join(dir, "capgate.yaml")
	check.Must(t, os.WriteFile(file, []byte("listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\nfleets: [{capability: weather, "+
		"policy: allow, backends: ['"+weather+"']}]\n"), 0o600))
	public := attribute(start(t, capgate, "serve", file).wait(t, `"msg":"serving"`), "listen")
	for service, address := range map[string]string{"gateway": public, "weather": weather} {
		healthy := func(address string) error {
			from, to := "localhost:50051", address
			if service == "gateway" {
				from, to = "healthcheck", "healthcheck\x00--addr\x00"+address
			}
			return runHealthcheck(t, service, "/capgate", capgate, from, to)
		}
		check.Succeeds(t, "the health check of the "+service, func() error { return healthy(address) })
		if healthy("127.0.0.1:1") == nil {
			t.Errorf("%s does not run and is healthy", service)
		}
	}
}
