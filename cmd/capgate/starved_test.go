//go:build !race

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
)

// TestStarvedByOthers, which runs without the race detector, as the part of a processor that is left does not suffice
// for a program under it: a gateway of lower priority shares one processor with four programs that never rest. Its
// calls take long, but none is turned away: the gateway has little to do. How long the machine makes bytes wait
// differs from run to run; TestDelayByOthers of internal/overload makes it certain.
func TestStarvedByOthers(t *testing.T) {
	t.Parallel()
	const calls, callers = 400, 8
	key, entry := makeKey(t)
	backend := gatewaytest.NewCapability("quick").Serve(t, call.Doc).Addr
	file := writeConfig(t, "listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\ntenants:\n  - {id: acme, capabilities: "+
		"['*'], keys: ["+entry+"]}\n"+
		"fleets:\n  - {capability: quick, policy: allow, backends: ['"+backend+"']}\n")
	self := selfCommand(t, "capgate", nil)
	p := launch(t, onOneProcessor(t, self, self.Path, "serve", "--config", file))
	text := p.stderr.wait(t, p, `"msg":"serving"`)
	invoke := grpcDoor(dial(t, attribute(text, "listen")))
	if got := invoke(t.Context(), key, "quick", "{}"); got != "OK" {
		t.Fatal(got)
	}
	lower(t, p.cmd.Process.Pid) // only now: a busy machine would not let it start
	for range 4 {
		launch(t, onOneProcessor(t, selfCommand(t, "", nil), "sh", "-c", "ulimit -t 30; while :; do :; done"))
	}
	var running sync.WaitGroup
	var refused atomic.Int64
	for range callers { // each makes one call after the other, so that what it brings is what the gateway can take
		running.Go(func() {
			for range calls / callers {
				switch got := invoke(t.Context(), key, "quick", "{}"); {
				case isTooMuch(got):
					refused.Add(1)
				case got != "OK":
					t.Error(got)
				}
			}
		})
	}
	running.Wait()
	if n := refused.Load(); n > 0 {
		t.Errorf("%d of %d calls were turned away", n, calls)
	}
}

// lower gives all threads of a process, and those that they start, a lower priority.
func lower(t *testing.T, pid int) {
	t.Helper()
	for range 2 { // one that was started meanwhile has it the second time
		threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
		must(t, err)
		for _, thread := range threads {
			id, err := strconv.Atoi(thread.Name())
			must(t, err)
			if err := syscall.Setpriority(syscall.PRIO_PROCESS, id, 15); err != nil && !errors.Is(err, syscall.ESRCH) {
				t.Fatal(err)
			}
		}
	}
}

// onOneProcessor is a command that runs on the last processor that this process may have, as another one was prepared.
func onOneProcessor(t *testing.T, as *exec.Cmd, args ...string) *exec.Cmd {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	must(t, err)
	_, list, _ := strings.Cut(string(status), "Cpus_allowed_list:")
	list, _, _ = strings.Cut(list, "\n")
	list = strings.TrimSpace(list)
	last := list[strings.LastIndexAny(list, ",-")+1:]
	cmd := exec.Command("taskset", append([]string{"-c", last}, args...)...)
	cmd.SysProcAttr, cmd.Env = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}, as.Env
	return cmd
}
