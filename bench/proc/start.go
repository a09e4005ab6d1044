package proc

import (
	"fmt"
	"os/exec"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Start starts cmd on the given cores, or on all cores if cores is empty. The process is killed when the thread that
// started it ends, so Start must be called from a goroutine that is locked to a thread that lives as long as the
// program.
func Start(cmd *exec.Cmd, cores []int) error {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	// A process group of its own, so that Ctrl-C reaches only this process, which stops its children in order.
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
	// A child inherits the affinity of the forking thread.
	if err := unix.SchedSetaffinity(0, &want); err != nil {
		return fmt.Errorf("pinning to cores %v: %w", cores, err)
	}
	err := cmd.Start()
	if back := unix.SchedSetaffinity(0, &before); err == nil && back != nil {
		return fmt.Errorf("restoring affinity: %w", back)
	}
	return err
}

// Stop ends a process that Start started: with SIGTERM, then with SIGKILL after grace. It returns when the process has
// ended.
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
