package browsertest

import "syscall"

// Group puts a browser, which consists of many processes, into its own process group. The first process is killed with
// the test binary, and the others end with it.
func Group() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
