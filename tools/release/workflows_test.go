package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// A workflow is the part of a file of .github/workflows that the tests need.
type workflow struct {
	Defaults struct{ Run struct{ Shell string } }
	Jobs     map[string]struct {
		Needs, Environment string
		Steps              []struct {
			Name, Run, Uses string
			With            map[string]any
			Env             map[string]string
		}
	}
}

// workflows returns the workflows by the names of their files.
func workflows(t *testing.T) map[string]workflow {
	t.Helper()
	files, err := filepath.Glob("../../.github/workflows/*.yml")
	must(t, err)
	all := map[string]workflow{}
	for _, file := range files {
		var w workflow
		must(t, yaml.Unmarshal(read(t, ".", file), &w))
		all[filepath.Base(file)] = w
	}
	return all
}

// TestWorkflowsHavePipefail: a command that fails before a pipe fails its step, unlike in GitHub's default shell.
func TestWorkflowsHavePipefail(t *testing.T) {
	t.Parallel()
	for file, w := range workflows(t) {
		for _, job := range w.Jobs {
			for _, step := range job.Steps {
				if step.Run != "" && w.Defaults.Run.Shell != "bash" {
					t.Errorf("%s: %q runs without pipefail; add defaults: {run: {shell: bash}}", file, step.Run)
				}
			}
		}
	}
}

// TestActionsArePinned: a workflow pins each action to a commit, which cannot be moved as a tag can, and has the tag as
// a comment.
func TestActionsArePinned(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../../.github/workflows/*.yml")
	must(t, err)
	pinned := regexp.MustCompile(`uses: [\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$`)
	for _, file := range files {
		for line := range strings.Lines(string(read(t, ".", file))) {
			if line = strings.TrimSpace(line); strings.Contains(line, "uses:") && !pinned.MatchString(line) {
				t.Errorf("%s: %q; write it as uses: NAME@COMMIT # v1.2.3", filepath.Base(file), line)
			}
		}
	}
}

// TestNightlyHasTheHistory: the upgrade test finds the last release only in a clone with history.
func TestNightlyHasTheHistory(t *testing.T) {
	t.Parallel()
	for _, step := range workflows(t)["nightly.yml"].Jobs["nightly"].Steps {
		if depth, has := step.With["fetch-depth"]; strings.HasPrefix(step.Uses, "actions/checkout@") &&
			(!has || depth != 0) {
			t.Errorf("the checkout has the depth %v; set fetch-depth: 0", depth)
		}
	}
}

// tree returns a repository in which main is the first commit and HEAD the second, with the real tools and Makefile.
func tree(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	shell(t, `ln -s "$(realpath ..)" "$1/tools" && ln -s "$(realpath ../../Makefile)" "$1" && cd "$1"
		commit() { git -c user.name=n -c user.email=e commit --quiet --allow-empty --message "$1"; }
		git init --quiet && commit one && git update-ref refs/remotes/origin/main HEAD && commit two`, dir)
	return dir
}

// hostile lists invalid versions. The last ones would be commands or other directories.
var hostile = []string{"", "1.0.0", "v1.0.0-rc-1", "v1.0.0+x", "v1.0.0;touch${IFS}x", "v1.0.0'", "$(touch${IFS}x)",
	"..", "v1.0.0/../.."}

// TestMakeReleaseChecks: make release with an invalid version deletes and runs nothing.
func TestMakeReleaseChecks(t *testing.T) {
	t.Parallel()
	dir := tree(t)
	other := filepath.Join(dir, "bin/release/v0.0.1")
	must(t, os.MkdirAll(other, 0o755))
	refused := func(want string, args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "env", append([]string{"-u", "VERSION", "-u", "MAKEFLAGS", "make", "-C",
			dir, "release"}, args...)...)
		if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), want) {
			t.Errorf("%v: %v %s, not %q", args, err, out, want)
		}
		if _, err := os.Stat(other); err != nil {
			t.Fatalf("%v: %v", args, err)
		}
	}
	refused("write the version of the release: make release VERSION=v0.1.0")
	for _, version := range hostile {
		refused("write it as v0.1.0", "VERSION="+strings.ReplaceAll(version, "$", "$$"))
	}
	if _, err := os.Stat(filepath.Join(dir, "x")); err == nil {
		t.Error("a version ran as a command")
	}
}
