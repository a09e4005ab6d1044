//go:build unix && !linux

package accept

import "syscall"

// hasInput reports whether a socket can be read at once: it has bytes, an end or an error.
func hasInput(fd int) bool {
	var b [1]byte
	_, _, err := syscall.Recvfrom(fd, b[:], syscall.MSG_PEEK)
	return err != syscall.EAGAIN
}
