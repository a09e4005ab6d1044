package deploy

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/clienttest"
)

// TestTheChartIsADemonstration: without values, the chart has one replica with the capability weather in the same pod.
// Its notes describe that, and list the requirements for production. The containers' commands, run here, answer the
// call in the notes.
func TestTheChartIsADemonstration(t *testing.T) {
	t.Parallel()
	all := renderChart(t)
	if n := field(all["Deployment capgate"], "spec", "replicas"); n != 1 {
		t.Errorf("%v replicas", n)
	}
	weather := field(all["Deployment capgate"], "spec", "template", "spec", "initContainers", 0)
	if fmt.Sprint(field(weather, "args")) != "[demo --weather 127.0.0.1:50051]" ||
		field(weather, "restartPolicy") != "Always" {
		t.Errorf("the capability is %v", weather)
	}
	notes := chartNotes(t)
	for _, want := range []string{"This is a demonstration", "config.fleets", "config.operators", "config.tenants",
		"redis.existingSecret", "secretFile.secret", "replicas"} {
		if !strings.Contains(notes, want) {
			t.Errorf("the notes have no %s:\n%s", want, notes)
		}
	}
	callAsNoted(t, all, notes)

	single := []string{"--values", "helm/examples/single.yaml"}
	if field(renderChart(t, single...)["Deployment capgate"], "spec", "template", "spec", "initContainers") != nil {
		t.Error("a chart with a configuration has the capability of the demonstration")
	}
	if notes := chartNotes(t, single...); strings.Contains(notes, "demonstration") {
		t.Errorf("the notes of a configuration:\n%s", notes)
	}
}

var noted = regexp.MustCompile(`curl http://localhost:8080(\S+) -d '(.+)'`)

// callAsNoted runs the commands of the pod on free ports and makes the call in the notes.
func callAsNoted(t *testing.T, all objects, notes string) {
	t.Helper()
	call := noted.FindStringSubmatch(notes)
	if call == nil {
		t.Fatalf("the notes have no call:\n%s", notes)
	}
	capability := start(t, capgate, "demo", "--weather", "127.0.0.1:0")
	backend := between(capability.wait(t, "Stop with"), ` at `, `. Stop with`)
	dir := t.TempDir()
	manifest, _ := field(all["ConfigMap capgate-manifests"], "data", "weather.yaml").(string)
	check.Must(t, os.WriteFile(filepath.Join(dir, "weather.yaml"), []byte(manifest), 0o600))
	config, _ := field(all["ConfigMap capgate"], "data", "capgate.yaml").(string)
	file := filepath.Join(t.TempDir(), "capgate.yaml")
	check.Must(t, os.WriteFile(file, []byte(replace(t, config, "127.0.0.1:50051", backend, "/etc/capgate/manifests",
		dir)), 0o600))
	gateway := start(t, capgate, "serve", "--config", file, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0")
	public := attribute(gateway.wait(t, `"msg":"serving"`), "listen")

	resp, err := clienttest.HTTP.Post("http://"+public+call[1], "application/json", strings.NewReader(call[2]))
	check.Must(t, err)
	defer func() { _ = resp.Body.Close() }()
	if body, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode != http.StatusOK ||
		!strings.Contains(string(body), "Germany") {
		t.Errorf("%s: %s %s %v", call[0], resp.Status, body, err)
	}
	runChartTests(t, all, public, attribute(gateway.wait(t, `"msg":"serving"`), "admin"))
}

// runChartTests runs the commands of the helm test pod. They succeed, and fail without a gateway.
func runChartTests(t *testing.T, all objects, public, admin string) {
	t.Helper()
	containers, _ := field(all["Pod capgate-test"], "spec", "containers").([]any)
	if len(containers) != 3 {
		t.Errorf("the pod of helm test has %v", containers)
	}
	for _, c := range containers {
		for _, succeeds := range []bool{true, false} {
			addresses := strings.NewReplacer("capgate:8080", public, "capgate-admin:8081", admin)
			if !succeeds {
				addresses = strings.NewReplacer("capgate:8080", "127.0.0.1:1", "capgate-admin:8081", "127.0.0.1:1")
			}
			var args []string
			for _, arg := range field(c, "args").([]any) {
				args = append(args, addresses.Replace(fmt.Sprint(arg)))
			}
			out, err := exec.CommandContext(t.Context(), capgate, args...).CombinedOutput()
			if (err == nil) != succeeds {
				t.Errorf("%v: %v: %s", args, err, out)
			}
		}
	}
}

func between(text, before, after string) string {
	_, text, _ = strings.Cut(text, before)
	text, _, _ = strings.Cut(text, after)
	return text
}

// chartNotes returns the output of helm after an installation: NOTES.txt, rendered as an object in a copy of the chart.
func chartNotes(t *testing.T, args ...string) string {
	t.Helper()
	dir := t.TempDir()
	check.Must(t, os.CopyFS(dir, os.DirFS("helm/capgate")))
	text, err := os.ReadFile("helm/capgate/templates/NOTES.txt")
	check.Must(t, err)
	check.Must(t, os.WriteFile(filepath.Join(dir, "templates/notes.yaml"), []byte(`{{ define "notes" }}`+string(text)+
		`{{ end }}{kind: Notes, text: {{ include "notes" . | toJson }}}`), 0o600))
	out, err := tool(t, "helm", append([]string{"template", "capgate", dir, "--kube-version", "1.34.0", "--namespace",
		"tools", "--show-only", "templates/notes.yaml"}, args...)...)
	check.Must(t, err)
	notes, _ := field(parseObjects(t, out)["Notes <nil>"], "text").(string)
	return notes
}
