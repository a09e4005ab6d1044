package deploy

import (
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/capgate/capgate/internal/testkit/check"
)

// TestTheChartsNotesAreTrue: the notes describe a release according to its values.
func TestTheChartsNotesAreTrue(t *testing.T) {
	t.Parallel()
	const fleet = "config.fleets[0].capability=a,config.fleets[0].backends[0]=a:1"
	const secure = "redis.enabled=true,tls.secret=t,config.tenants[0].id=a,config.tenants[0].capabilities[0]=weather"
	for values, wants := range map[string]map[string]bool{
		"replicas=1": {"an embedded store": true, "no authentication": true, "http://localhost": true,
			"  tls.secret": true, "  redis ": true, "rollout status deployment/capgate": true,
			"helm -n tools test capgate": true, "in another terminal": true},
		secure: {"an embedded store": false, "no authentication": false, "http:": false, "https://localhost": true,
			"  tls.secret": false, "  config.tenants": false, "store that replicas share": false,
			"helm -n tools test": false, "rollout status": true},
		secure + ",tests.ca=ca.pem":   {"helm -n tools test capgate": true},
		"tests.enabled=false":         {"helm -n tools test": false},
		fleet:                         {"http://capgate.tools.svc:8080": true, "embedded store": true},
		fleet + ",redis.enabled=true": {"embedded store": false},
		fleet + ",redis.enabled=true,keda.enabled=true": {"KEDA needs the metrics": true},
		fleet + ",redis.enabled=true,keda.enabled=true,serviceMonitor.enabled=true": {
			"KEDA needs the metrics": false},
	} {
		notes := chartNotes(t, "--set", values)
		for want, has := range wants {
			if strings.Contains(notes, want) != has {
				t.Errorf("%s: the notes have %q: %v\n%s", values, want, !has, notes)
			}
		}
	}
}

// TestTheChartTestsTLSWithItsAuthority: over TLS, helm test has a pod only if there is an authority. A secret without
// the authority does not keep the pod from starting.
func TestTheChartTestsTLSWithItsAuthority(t *testing.T) {
	t.Parallel()
	const certificate = "certificate.enabled=true,certificate.issuerRef.name=ca"
	for values, ca := range map[string]string{"tls.secret=t": "", "tls.secret=t,tests.ca=ca.pem": "ca.pem",
		certificate: "ca.crt", certificate + ",tests.ca=root": "root"} {
		pod := renderChart(t, "--set", values)["Pod capgate-test"]
		if (pod != nil) != (ca != "") {
			t.Errorf("%s: the pod of the test is %v", values, pod)
		}
		if pod == nil || ca == "" {
			continue
		}
		secret := asMap(field(pod, "spec", "volumes", 0, "secret"))
		if want := []any{map[string]any{"key": ca, "path": ca}}; secret["optional"] != true ||
			!reflect.DeepEqual(secret["items"], want) {
			t.Errorf("%s: the secret of the authority: %v", values, secret)
		}
		args, _ := field(pod, "spec", "containers", 0, "args").([]any)
		if !contains(args, "--tls-ca=/etc/capgate/tls/"+ca) {
			t.Errorf("%s: %v", values, args)
		}
	}
}

// TestTheChartScalesByMetricsAlone: KEDA treats a response without metrics as an error, and not as 0 calls.
func TestTheChartScalesByMetricsAlone(t *testing.T) {
	t.Parallel()
	all := renderChart(t, "--set", "redis.enabled=true,keda.enabled=true")
	trigger := field(all["ScaledObject capgate"], "spec", "triggers", 0, "metadata")
	if got := field(trigger, "ignoreNullValues"); got != "false" {
		t.Errorf("ignoreNullValues: %v", got)
	}
}

// TestInstallationsOfTheChartWait: on the pages, each installation waits until it is ready before its test, which makes
// only one call.
func TestInstallationsOfTheChartWait(t *testing.T) {
	t.Parallel()
	for _, page := range []string{"README.md", "../docs/run/kubernetes.md"} {
		text, err := os.ReadFile(page)
		check.Must(t, err)
		commands := regexp.MustCompile("helm install [^\n`]*").FindAllString(string(text), -1)
		if len(commands) == 0 {
			t.Errorf("%s installs nothing", page)
		}
		for _, command := range commands {
			if !strings.Contains(command, " --wait") {
				t.Errorf("%s: %s", page, command)
			}
		}
	}
}
