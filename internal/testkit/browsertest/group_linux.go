package browsertest

import "syscall"

// Group gives a browser, which is many processes, a group of its own. The first process is killed if the test binary
// is, and the others end with it.
func Group() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
