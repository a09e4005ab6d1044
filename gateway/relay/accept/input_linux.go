package accept

import (
	"syscall"
	"unsafe"
)

// hasInput reports whether a socket can be read at once: it has bytes, an end or an error. As in package relay, the
// scheduler is not notified of a call that never blocks.
func hasInput(fd int) bool {
	var b [1]byte
	_, _, errno := syscall.RawSyscall6(syscall.SYS_RECVFROM, uintptr(fd), uintptr(unsafe.Pointer(&b[0])), 1,
		syscall.MSG_PEEK|syscall.MSG_DONTWAIT, 0, 0)
	return errno != syscall.EAGAIN
}
