package redistest

import (
	"context"
	"os/exec"

	"github.com/capgate/capgate/internal/testkit/process"
)

// TB is the needed part of testing.TB.
type TB interface {
	process.TB
	Context() context.Context
}

// run starts a program in a directory.
func run(t TB, dir, name string, args ...string) *process.Process {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	return process.Start(t, cmd)
}
