//go:build unix && !linux

package browsertest

import "syscall"

// Group puts a browser, which consists of many processes, into its own process group.
func Group() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
