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
