package deploy

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/capgate/capgate/internal/testkit/check"
)

// TestTheChartHasARedis: with redis.enabled, the command of the chart's Redis, with the users of its secret, serves the
// gateway, which is ready with the URL of the same secret. Access without the password is denied.
func TestTheChartHasARedis(t *testing.T) {
	t.Parallel()
	all := renderChart(t, "--set", "redis.enabled=true,replicas=3")
	secret := asMap(field(all["Secret capgate-redis"], "stringData"))
	env := fmt.Sprint(field(all["Deployment capgate"], "spec", "template", "spec", "containers", 0, "env"))
	strict := renderChart(t, "--set", "redis.enabled=true,networkPolicy.egress[0].ports[0].port=53")
	if rules, _ := field(strict["NetworkPolicy capgate"], "spec", "egress").([]any); len(rules) != 2 {
		t.Errorf("a gateway with egress rules reaches %v, not Redis", rules)
	}
	if env != "[map[name:CAPGATE_REDIS valueFrom:map[secretKeyRef:map[key:url name:capgate-redis]]]]" {
		t.Errorf("the gateway's environment: %v", env)
	}
	dir, host := t.TempDir(), fmt.Sprintf("127.%d.%d.5", 1+rand.IntN(254), rand.IntN(256))
	users := filepath.Join(dir, "users.acl")
	check.Must(t, os.WriteFile(users, []byte(fmt.Sprint(secret["users.acl"])), 0o600))
	paths := strings.NewReplacer("/etc/redis/users.acl", users, "/data", dir)
	pod := field(all["StatefulSet capgate-redis"], "spec", "template", "spec", "containers", 0)
	var args []string
	for _, arg := range field(pod, "args").([]any) {
		args = append(args, paths.Replace(fmt.Sprint(arg)))
	}
	start(t, args[0], append(args[1:], "--bind", host)...).wait(t, "Ready to accept connections")
	answer, _ := exec.CommandContext(t.Context(), "redis-cli", "-h", host, "get", "cg:a").CombinedOutput()
	if !strings.Contains(string(answer), "NOAUTH") {
		t.Errorf("without a password Redis answers %s", answer)
	}

	file := filepath.Join(dir, "capgate.yaml")
	check.Must(t, os.WriteFile(file, []byte("fleets: [{capability: a, backends: ['127.0.0.1:1']}]\n"), 0o600))
	gateway := exec.Command(capgate, "serve", file, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0")
	gateway.SysProcAttr = &syscall.SysProcAttr{}
	url := replace(t, fmt.Sprint(secret["url"]), "capgate-redis", host)
	gateway.Env = append(gateway.Environ(), "CAPGATE_REDIS="+url)
	admin := attribute(launch(t, gateway).wait(t, `"msg":"serving"`), "admin")
	check.Succeeds(t, "the gateway with Redis", func() error {
		resp, err := http.Get("http://" + admin + "/readyz")
		if err != nil {
			return err
		}
		defer func() { _ = resp.Body.Close() }()
		body, err := io.ReadAll(resp.Body)
		if err == nil && !strings.Contains(string(body), `"redis":"ok"`) {
			err = fmt.Errorf("/readyz: %s", body)
		}
		return err
	})
}
