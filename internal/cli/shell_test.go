package cli

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/capgate/capgate/internal/testkit/check"
)

// shell runs lines of documentation as a reader would, in the repository's root, with this capgate and with
// env. It returns the output, including errors.
func shell(t *testing.T, script string, env ...string) (output string, exit int) {
	t.Helper()
	self, err := os.Executable()
	check.Must(t, err)
	dir := t.TempDir()
	for _, name := range []string{"capgate", "go", "curl", "grpcurl"} {
		if _, err := exec.LookPath(name); err == nil && (name == "curl" || name == "grpcurl") {
			continue // the real one is better
		}
		check.Must(t, os.Symlink(self, filepath.Join(dir, name)))
	}
	cmd := exec.Command("sh", "-eu", "-c", script)
	cmd.Dir = filepath.Join("..", "..")
	cmd.Env = append(slices.DeleteFunc(cleanEnv(), isPath), "PATH="+dir+":"+os.Getenv("PATH"), asCommand+"=link",
		noRaceWait)
	cmd.Env = append(cmd.Env, env...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return out.String(), cmd.ProcessState.ExitCode()
}

// needCurl skips a test without the real curl, but not in CI.
func needCurl(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("curl"); err == nil {
		return
	}
	if os.Getenv("CI") == "true" {
		t.Fatal("no curl: tools/setup installs it")
	}
	t.Skip("no curl: make setup installs it where it can")
}

func isPath(v string) bool { return len(v) > 5 && v[:5] == "PATH=" }

// standIn acts as a program that the documentation names, and returns its exit status.
func standIn(name string, args []string) int {
	switch name {
	case "go": // go run ./cmd/capgate …
		if len(args) < 2 || args[0] != "run" || args[1] != "./cmd/capgate" {
			return 64
		}
		os.Args = append([]string{"capgate"}, args[2:]...)
		return Main()
	case "capgate":
		return Main()
	case "curl":
		return curl(args)
	case "grpcurl":
		return grpcurl(args)
	}
	return 64
}
