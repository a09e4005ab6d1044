// Package browsertest runs scenarios of console/testdata in Chromium. One browser serves the tests of a package.
//
//	scenario   a module of console/testdata/scenarios; its default export gets a page and arguments
//	Result     what it returned, and what no page may do: dialogs, foreign requests, violations of the policy
package browsertest

import (
	"bufio"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/capgate/capgate/internal/testkit/check"
)

// Browser is a running Chromium.
type Browser struct {
	dir      string // with the scenarios, from where node finds its packages
	endpoint string
}

// Result is what a scenario saw.
type Result struct {
	Value      json.RawMessage // what it returned
	Complaints []string        // errors and warnings of the page, and violations of its policy
	Dialogs    []string        // of alert and the like
	Foreign    []string        // requests to other origins
}

// Chromium is the program of the browser. The headless shell is Chromium without the windows, tabs and extensions that
// only people need, and takes two thirds of the CPU time.
func Chromium(t *testing.T) (path string) {
	t.Helper()
	path, err := exec.LookPath("chromium-headless-shell")
	if err != nil {
		path, err = exec.LookPath("chromium")
	}
	if err != nil {
		t.Fatalf("%v: run `make setup`", err)
	}
	return path
}

// Start starts a browser, until the test ends. The root is that of the repository.
func Start(t *testing.T, root string) *Browser {
	t.Helper()
	chromium := Chromium(t)
	npm, err := filepath.Abs(filepath.Join(root, "bin", "node"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(npm, "node_modules", "axe-core")); err != nil {
		t.Fatalf("%v: run `make setup`", err)
	}
	b := &Browser{}
	if b.dir, err = os.MkdirTemp(npm, "test"); err != nil {
		t.Fatal(err)
	}
	check.Cleanup(t, func() { _ = os.RemoveAll(b.dir) })
	if err := os.CopyFS(b.dir, os.DirFS(filepath.Join(root, "console", "testdata"))); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("node", "launch.mjs", chromium)
	cmd.Dir, cmd.Stderr = b.dir, os.Stderr
	cmd.SysProcAttr = Group()
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	check.Cleanup(t, func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("the browser does not start: %v", err)
	}
	b.endpoint = strings.TrimSpace(line)
	return b
}

// Run runs a scenario with arguments, and fails the test if it fails or a page does what no page may do. The value
// that the scenario returned is decoded into value, unless that is nil.
func (b *Browser) Run(t *testing.T, scenario string, args, value any) {
	t.Helper()
	text, err := json.Marshal(args)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "node", "run.mjs", b.endpoint, scenario, string(text))
	cmd.Dir = b.dir
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s%s", scenario, err, out, stderr.String())
	}
	var r Result
	if err := json.Unmarshal(out, &r); err != nil {
		t.Fatalf("%s: %v: %s", scenario, err, out)
	}
	if len(r.Complaints)+len(r.Dialogs)+len(r.Foreign) > 0 {
		t.Errorf("%s: the page complains %q, opens %q, asks %q", scenario, r.Complaints, r.Dialogs, r.Foreign)
	}
	if value != nil {
		if err := json.Unmarshal(r.Value, value); err != nil {
			t.Fatalf("%s: %v: %s", scenario, err, r.Value)
		}
	}
}
