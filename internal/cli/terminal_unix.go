//go:build unix

package cli

import (
	"os"

	"golang.org/x/sys/unix"
)

// widthOf returns the number of columns of a terminal; 0: out is none, or its width is unknown.
func widthOf(out any) int {
	f, ok := out.(*os.File)
	if !ok || !isTerminal(f) {
		return 0
	}
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ) //nolint:gosec // a file descriptor is small
	if err != nil {
		return 0
	}
	return int(size.Col)
}

// canRead reports whether a read of a terminal returns at once: a line was typed, or the input has ended.
func canRead(in any) bool {
	f, ok := in.(*os.File)
	if !ok {
		return false
	}
	fd := int(f.Fd()) //nolint:gosec // a file descriptor is small
	var ready unix.FdSet
	ready.Set(fd)
	n, err := unix.Select(fd+1, &ready, nil, nil, &unix.Timeval{})
	return err == nil && n > 0
}
