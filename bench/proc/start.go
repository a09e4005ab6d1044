package proc

import (
	"fmt"
	"os/exec"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Start starts cmd on the given cores, all of them when there are none. The
// process is killed when the thread that started it ends; so call Start from a
// goroutine locked to a thread that lives as long as the program.
func Start(cmd *exec.Cmd, cores []int) error {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	// Not in our process group: Ctrl-C is for us, who stop our children in order.
	cmd.SysProcAttr.Setpgid = true
	if len(cores) == 0 {
		return cmd.Start()
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var before, want unix.CPUSet
	if err := unix.SchedGetaffinity(0, &before); err != nil {
		return fmt.Errorf("reading affinity: %w", err)
	}
	for _, c := range cores {
		want.Set(c)
	}
	// A child inherits the affinity of the thread that forks it.
	if err := unix.SchedSetaffinity(0, &want); err != nil {
		return fmt.Errorf("pinning to cores %v: %w", cores, err)
	}
	err := cmd.Start()
	if back := unix.SchedSetaffinity(0, &before); err == nil && back != nil {
		return fmt.Errorf("restoring affinity: %w", back)
	}
	return err
}

// Stop ends a process that Start started: politely, then, after grace, by force.
// It returns when the process is gone.
func Stop(cmd *exec.Cmd, grace time.Duration) {
	_ = cmd.Process.Signal(syscall.SIGTERM)
	gone := make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(gone)
	}()
	select {
	case <-gone:
	case <-time.After(grace):
		_ = cmd.Process.Kill()
		<-gone
	}
}
