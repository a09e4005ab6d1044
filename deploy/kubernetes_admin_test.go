package deploy

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/capgate/capgate/internal/testkit/certtest"
	"github.com/capgate/capgate/internal/testkit/check"
)

// adminTLS holds values for TLS of the admin API.
const adminTLS = "config.operators.tls.cert_file=/certs/tls.crt,config.operators.tls.key_file=/certs/tls.key"

// TestTheChartOpensTheAdminPortToOperatorsAlone: no network policy of an installation admits other pods to the admin
// port. The policy of helm test exists only during the test, and admits its pod to the admin port only if the test
// needs it.
func TestTheChartOpensTheAdminPortToOperatorsAlone(t *testing.T) {
	t.Parallel()
	const public, admin = "[map[port:public]]", "[map[port:admin]]"
	both := "[map[port:public] map[port:admin]]"
	for values, want := range map[string]struct{ installed, test string }{
		"replicas=1": {public, both},
		"networkPolicy.callers[0].podSelector.a=b":   {public, both},
		"networkPolicy.operators[0].podSelector.a=b": {public + " " + admin, both},
		adminTLS:                             {public, public},
		adminTLS + ",tests.adminCA.secret=s": {public, both},
		"tests.enabled=false":                {public, ""},
		"tls.secret=t":                       {public, ""},
		"networkPolicy.enabled=false":        {"", ""},
		"networkPolicy.enabled=false,tests.enabled=false": {"", ""},
		"tls.secret=t,tests.ca=c":                         {public, both},
	} {
		all := renderChart(t, "--set", values)
		ports := func(policy string) string {
			var ports []string
			rules, _ := field(all["NetworkPolicy "+policy], "spec", "ingress").([]any)
			for _, rule := range rules {
				ports = append(ports, fmt.Sprint(field(rule, "ports")))
				if policy == "capgate-test" && !reflect.DeepEqual(field(rule, "from", 0, "podSelector", "matchLabels"),
					map[string]any{"app.kubernetes.io/name": "capgate-test", "app.kubernetes.io/instance": "capgate"}) {
					t.Errorf("%s: helm test admits %v", values, rule)
				}
				if strings.Contains(fmt.Sprint(rule), "capgate-test") != (policy == "capgate-test") {
					t.Errorf("%s: %s has %v", values, policy, rule)
				}
			}
			return strings.Join(ports, " ")
		}
		if got := ports("capgate"); got != want.installed {
			t.Errorf("%s: the installation has %s, want %s", values, got, want.installed)
		}
		if got := ports("capgate-test"); got != want.test {
			t.Errorf("%s: the test has %s, want %s", values, got, want.test)
		}
		if hook := field(all["NetworkPolicy capgate-test"], "metadata", "annotations"); want.test != "" &&
			!reflect.DeepEqual(hook, map[string]any{"helm.sh/hook": "test", "helm.sh/hook-weight": "-1",
				"helm.sh/hook-delete-policy": "before-hook-creation,hook-succeeded,hook-failed"}) {
			t.Errorf("%s: the policy of the test has %v", values, hook)
		}
	}
}

// TestTheChartUsesTLSOfTheAdminAPI: with TLS of the admin API, the probes and the command of helm test succeed at a
// gateway with the configuration of the chart, and Prometheus uses HTTPS.
func TestTheChartUsesTLSOfTheAdminAPI(t *testing.T) {
	t.Parallel()
	dir, authority := t.TempDir(), certtest.New(t)
	cert, key := certtest.PEMOf(t, authority.Server(t))
	for name, text := range map[string]string{"tls.crt": cert, "tls.key": key, "ca.crt": authority.PEM} {
		check.Must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	all := renderChart(t, "--set", adminTLS+",config.operators.tls.client_ca_file=/certs/ca.crt,"+
		"config.operators.tls.client_auth=optional,tests.adminCA.secret=admin-tls,serviceMonitor.enabled=true,"+
		"serviceMonitor.tlsConfig.serverName=capgate-admin")
	config, _ := field(all["ConfigMap capgate"], "data", "capgate.yaml").(string)
	manifest, _ := field(all["ConfigMap capgate-manifests"], "data", "weather.yaml").(string)
	check.Must(t, os.WriteFile(filepath.Join(dir, "weather.yaml"), []byte(manifest), 0o600))
	file := filepath.Join(t.TempDir(), "capgate.yaml")
	check.Must(t, os.WriteFile(file, []byte(replace(t, config, "/certs/", dir+"/", "/etc/capgate/manifests", dir)),
		0o600))
	gateway := start(t, capgate, "serve", "--config", file, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0")
	admin := attribute(gateway.wait(t, `"msg":"serving"`), "admin")

	//nolint:gosec // as the kubelet
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	check.Cleanup(t, transport.CloseIdleConnections)
	for _, probe := range []string{"readinessProbe", "livenessProbe"} {
		get := field(all["Deployment capgate"], "spec", "template", "spec", "containers", 0, probe, "httpGet")
		scheme, is := field(get, "scheme").(string)
		if !is {
			scheme = "HTTP"
		}
		url := fmt.Sprint(strings.ToLower(scheme), "://", admin, field(get, "path"))
		resp, err := (&http.Client{Transport: transport}).Get(url)
		if err != nil {
			t.Errorf("%s: %v", probe, err)
			continue
		}
		check.Must(t, resp.Body.Close())
		if resp.StatusCode != http.StatusOK {
			t.Errorf("%s: %s returns %s", probe, url, resp.Status)
		}
	}

	containers, _ := field(all["Pod capgate-test"], "spec", "containers").([]any)
	ready := 0
	for _, c := range containers {
		if field(c, "name") != "ready" {
			continue
		}
		ready++
		args := strings.Fields(replace(t, strings.Trim(fmt.Sprint(field(c, "args")), "[]"), "capgate-admin:8081", admin,
			"/etc/capgate/admin", dir))
		out, err := exec.CommandContext(t.Context(), capgate, args...).CombinedOutput()
		if err != nil {
			t.Errorf("%v: %v: %s", args, err, out)
		}
	}
	if ready != 1 {
		t.Errorf("the pod of helm test has %v", containers)
	}
	endpoint := field(all["ServiceMonitor capgate"], "spec", "endpoints", 0)
	if field(endpoint, "scheme") != "https" || field(endpoint, "tlsConfig", "serverName") != "capgate-admin" {
		t.Errorf("the endpoint of Prometheus: %v", endpoint)
	}
	notes := chartNotes(t, "--set", "config.fleets[0].capability=a,config.fleets[0].backends[0]=a:1,"+
		"config.operators.metrics=open,"+adminTLS)
	if !strings.Contains(notes, "capgate status --admin https://localhost:8081 --tls-ca") {
		t.Errorf("the notes:\n%s", notes)
	}
}
