// Package browsertest runs scenarios of console/testdata in Chromium. One browser serves the tests of a package.
//
//	scenario   a module of console/testdata/scenarios; its default export gets a page and arguments
//	Result     what it returned, and what no page may do: dialogs, foreign requests, violations of the policy
package browsertest

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/capgate/capgate/internal/testkit/check"
)

// longest is the time limit of a scenario. Its steps have timeouts of their own, but functions that run in the page do
// not.
const longest = 8 * time.Minute

// Browser is a running Chromium.
type Browser struct {
	dir string // with the scenarios, in which node finds its packages

	mu    sync.Mutex
	in    *json.Encoder
	asked map[int]chan reply // by run number; nil once the program has ended
	last  int
}

// reply is the output of console/testdata/run.mjs for a run.
type reply struct {
	ID    int
	Saw   Result
	Error string
}

// Result holds the return value and the observations of a scenario.
type Result struct {
	Value      json.RawMessage // what it returned
	Complaints []string        // errors and warnings of the page, and violations of its policy
	Dialogs    []string        // of alert and similar functions
	Foreign    []string        // requests to other origins
}

// Chromium is the browser's program. The headless shell is Chromium without windows, tabs and extensions, and takes two
// thirds of the CPU time.
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

// Start starts a browser that runs until the test ends. root is the root of the repository.
func Start(t *testing.T, root string) *Browser {
	t.Helper()
	chromium := Chromium(t)
	npm, err := filepath.Abs(filepath.Join(root, "bin", "node"))
	check.Must(t, err)
	if _, err := os.Stat(filepath.Join(npm, "node_modules", "axe-core")); err != nil {
		t.Fatalf("%v: run `make setup`", err)
	}
	b := &Browser{asked: map[int]chan reply{}}
	if b.dir, err = os.MkdirTemp(npm, "test"); err != nil {
		t.Fatal(err)
	}
	check.Cleanup(t, func() { _ = os.RemoveAll(b.dir) })
	check.Must(t, os.CopyFS(b.dir, os.DirFS(filepath.Join(root, "console", "testdata"))))
	cmd := exec.Command("node", "run.mjs", chromium)
	cmd.Dir, cmd.Stderr = b.dir, os.Stderr
	cmd.SysProcAttr = Group()
	in, err := cmd.StdinPipe()
	check.Must(t, err)
	b.in = json.NewEncoder(in)
	out, err := cmd.StdoutPipe()
	check.Must(t, err)
	check.Must(t, cmd.Start())
	check.Cleanup(t, func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait()
	})
	replies := json.NewDecoder(out)
	if err := replies.Decode(new(reply)); err != nil {
		t.Fatalf("the browser does not start: %v", err)
	}
	go b.listen(replies)
	return b
}

// listen delivers replies until the program ends.
func (b *Browser) listen(replies *json.Decoder) {
	for {
		var r reply
		err := replies.Decode(&r)
		b.mu.Lock()
		if err != nil {
			for _, asked := range b.asked {
				asked <- reply{Error: fmt.Sprintf("the browser has ended: %v", err)}
			}
			b.asked = nil
			b.mu.Unlock()
			return
		}
		if asked := b.asked[r.ID]; asked != nil {
			delete(b.asked, r.ID)
			asked <- r
		}
		b.mu.Unlock()
	}
}

// ask sends a scenario to the program.
func (b *Browser) ask(scenario string, args any) (<-chan reply, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.asked == nil {
		return nil, errors.New("the browser has ended")
	}
	b.last++
	asked := make(chan reply, 1)
	b.asked[b.last] = asked
	return asked, b.in.Encode(map[string]any{"id": b.last, "scenario": scenario, "args": args})
}

// Run runs a scenario with arguments. It fails the test if the scenario fails or a page does something that no page may
// do. If value is not nil, the scenario's result is decoded into it.
func (b *Browser) Run(t *testing.T, scenario string, args, value any) {
	t.Helper()
	asked, err := b.ask(scenario, args)
	if err != nil {
		t.Fatalf("%s: %v", scenario, err)
	}
	var answer reply
	select {
	case answer = <-asked:
	case <-time.After(longest):
		t.Fatalf("%s: has not ended after %v", scenario, longest)
	}
	if answer.Error != "" {
		t.Fatalf("%s: %s", scenario, answer.Error)
	}
	r := answer.Saw
	if len(r.Complaints)+len(r.Dialogs)+len(r.Foreign) > 0 {
		t.Errorf("%s: the page complains %q, opens %q, asks %q", scenario, r.Complaints, r.Dialogs, r.Foreign)
	}
	if value != nil {
		if err := json.Unmarshal(r.Value, value); err != nil {
			t.Fatalf("%s: %v: %s", scenario, err, r.Value)
		}
	}
}
