package deploy

import (
	"context"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/capgate/capgate/internal/testkit/check"
)

var former = flag.String("former", "", "`version` that TestUpgrade begins with: a tag, a commit, or last for the last "+
	"tag, and without tags "+beforeRelease+"; default the program as it is")

// beforeRelease is the former version until there is a release.
const beforeRelease = "HEAD~100"

// formerProgram returns the program of the former version.
func formerProgram(t *testing.T) string {
	t.Helper()
	if *former == "" {
		return capgate
	}
	commit := formerCommit(t)
	t.Logf("the former version is %s", git(t, "log", "-1", "--format=%h of %cI, %s", commit))
	dir := t.TempDir()
	git(t, "archive", "--output", filepath.Join(dir, "tree.tar"), commit)
	tree := filepath.Join(dir, "tree")
	check.Must(t, os.Mkdir(tree, 0o755))
	command(t, "tar", "-xf", filepath.Join(dir, "tree.tar"), "-C", tree)
	program := filepath.Join(dir, "capgate")
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
	defer cancel()
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags",
		"-X github.com/capgate/capgate/internal/lib/buildinfo.version="+commit, "-o", program, "./cmd/capgate")
	build.Dir, build.Env = tree, append(build.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the former version: %v\n%s", err, out)
	}
	return program
}

// formerCommit returns the commit of -former. A clone without history fails the test, which could otherwise test
// nothing without saying so.
func formerCommit(t *testing.T) string {
	t.Helper()
	if *former != "last" {
		return git(t, "rev-parse", "--verify", *former+"^{commit}")
	}
	if git(t, "rev-parse", "--is-shallow-repository") == "true" {
		t.Fatal("this clone has no history; run git fetch --unshallow --tags, or fetch with depth 0")
	}
	if tags := git(t, "tag", "--merged", "HEAD^", "--list", "v[0-9]*", "--sort=-version:refname"); tags != "" {
		tag, _, _ := strings.Cut(tags, "\n")
		return git(t, "rev-parse", tag+"^{commit}")
	}
	return git(t, "rev-parse", "--verify", beforeRelease+"^{commit}")
}

// git returns the output of a command of git in the repository.
func git(t *testing.T, args ...string) string {
	t.Helper()
	out, _ := command(t, "git", append([]string{"-C", "..", "-c", "versionsort.suffix=-"}, args...)...)
	return strings.TrimSpace(out)
}
