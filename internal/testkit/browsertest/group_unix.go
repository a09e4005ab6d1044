//go:build unix && !linux

package browsertest

import "syscall"

// Group gives a browser, which is many processes, a group of its own.
func Group() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
