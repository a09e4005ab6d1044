package proc_test

import (
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/capgate/capgate/bench/proc"
	"github.com/capgate/capgate/internal/testkit/check"
)

func TestSelf(t *testing.T) {
	t.Parallel()
	pid := os.Getpid()
	before, err := proc.CPU(pid)
	check.Must(t, err)
	for deadline := time.Now().Add(10 * time.Second); ; {
		after, err := proc.CPU(pid)
		check.Must(t, err)
		if after > before {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("processor time stays at %v", before)
		}
	}
	if n, err := proc.RSS(pid); err != nil || n < 1<<20 {
		t.Errorf("resident memory is %d bytes, %v", n, err)
	}
	if n, err := proc.PeakRSS(pid); err != nil || n < 1<<20 {
		t.Errorf("at most it was %d bytes, %v", n, err)
	}
	if m, err := proc.Machine(); err != nil || m.Used <= 0 {
		t.Errorf("machine used %v, %v", m.Used, err)
	}
}

func TestGoneProcessIsAnError(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("true")
	check.Must(t, cmd.Run())
	if _, err := proc.CPU(cmd.Process.Pid); err == nil {
		t.Error("no error for a process that has ended")
	}
}

func TestStartPinsAndStopEnds(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("sh", "-c", "grep Cpus_allowed_list /proc/self/status; sleep 100")
	out, err := cmd.StdoutPipe()
	check.Must(t, err)
	check.Must(t, proc.Start(cmd, []int{0}))
	line := make([]byte, 100)
	n, err := out.Read(line)
	proc.Stop(cmd, 10*time.Second)
	if err != nil || string(line[:n]) != "Cpus_allowed_list:\t0\n" {
		t.Errorf("child runs on %q, %v", line[:n], err)
	}
	if cmd.ProcessState == nil {
		t.Error("child still runs")
	}
}
