package filter

import (
	"errors"
	"syscall"
)

// OwnFault reports whether a connection failed because of this machine.
func OwnFault(err error) bool {
	for _, known := range []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM,
		syscall.EADDRNOTAVAIL} {
		if errors.Is(err, known) {
			return true
		}
	}
	return false
}
