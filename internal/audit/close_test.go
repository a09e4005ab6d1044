package audit_test

import (
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/capgate/capgate/internal/audit"
	"github.com/capgate/capgate/internal/testkit/check"
)

// TestCloseReleasesTheFile holds a duplicate of the log's descriptor, as a child process does between fork and exec.
func TestCloseReleasesTheFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "audit.log")
	l := open(t, audit.Config{Path: path, Replica: "gw-1", Version: "v1"})
	held := duplicate(t, path)
	defer func() { check.Must(t, syscall.Close(held)) }()
	l.Close()
	write(t, path, 1)
}

// duplicate duplicates the descriptor by which this process has a file open.
func duplicate(t *testing.T, path string) int {
	t.Helper()
	open, err := os.ReadDir("/proc/self/fd")
	check.Must(t, err)
	for _, entry := range open {
		if target, _ := os.Readlink("/proc/self/fd/" + entry.Name()); target != path {
			continue
		}
		fd, err := strconv.Atoi(entry.Name())
		check.Must(t, err)
		fd, err = syscall.Dup(fd)
		check.Must(t, err)
		return fd
	}
	t.Fatal("the file is not open")
	return -1
}
