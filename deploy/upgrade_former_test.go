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

// beforeRelease is the former version as long as there is no release.
const beforeRelease = "HEAD~100"

// formerProgram returns the program of the former version.
func formerProgram(t *testing.T) string {
	t.Helper()
	if *former == "" {
		return capgate
	}
	commit := formerCommit(t, "..", *former)
	t.Logf("the former version is %s", git(t, "..", "log", "-1", "--format=%h of %cI, %s", commit))
	dir := t.TempDir()
	git(t, "..", "archive", "--output", filepath.Join(dir, "tree.tar"), commit)
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

// formerCommit returns the commit for a value of -former in a clone. In a clone without history, the test fails rather
// than test nothing.
func formerCommit(t *testing.T, clone, former string) string {
	t.Helper()
	if former != "last" {
		return git(t, clone, "rev-parse", "--verify", former+"^{commit}")
	}
	if git(t, clone, "rev-parse", "--is-shallow-repository") == "true" {
		t.Fatal("this clone has no history; run git fetch --unshallow --tags, or fetch with depth 0")
	}
	if tags := git(t, clone, "tag", "--merged", "HEAD^", "--list", "v[0-9]*", "--sort=-version:refname"); tags != "" {
		tag, _, _ := strings.Cut(tags, "\n")
		return git(t, clone, "rev-parse", tag+"^{commit}")
	}
	return git(t, clone, "rev-parse", "--verify", beforeRelease+"^{commit}")
}

// git returns the output of a command of git in a clone.
func git(t *testing.T, clone string, args ...string) string {
	t.Helper()
	out, _ := command(t, "git", append([]string{"-C", clone, "-c", "versionsort.suffix=-"}, args...)...)
	return strings.TrimSpace(out)
}

// TestFormerVersion: the former version of an upgrade is the last release before the commit or, if there is none, the
// hundredth commit before it. A release is later than its prereleases.
func TestFormerVersion(t *testing.T) {
	t.Parallel()
	clone := t.TempDir()
	git(t, clone, "init", "--quiet")
	commit := func(tags ...string) (id string) {
		git(t, clone, "-c", "user.name=n", "-c", "user.email=e", "commit", "--quiet", "--allow-empty", "--message", "m")
		for _, tag := range tags {
			git(t, clone, "-c", "user.name=n", "-c", "user.email=e", "tag", "--annotate", "--message", "m", tag)
		}
		return git(t, clone, "rev-parse", "HEAD")
	}
	last := func(want, what string) {
		t.Helper()
		if got := formerCommit(t, clone, "last"); got != want {
			t.Errorf("%s: the former version is %s", what, git(t, clone, "describe", "--always", "--tags", got))
		}
	}
	first := commit()
	for range 100 {
		commit()
	}
	last(first, "without a release")
	release := commit("v0.9.0", "other-v9")
	commit()
	last(release, "after a release")
	if got := formerCommit(t, clone, "v0.9.0"); got != release {
		t.Errorf("a named version: %s", got)
	}
	candidate := commit("v0.10.0-rc.1")
	final := commit("v0.10.0")
	last(candidate, "at a release")
	commit()
	last(final, "after a release with a candidate")
}
