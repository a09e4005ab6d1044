package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A stage holds the scripts of a job of release.yml, in a repository, with stand-ins for the programs that need GitHub.
type stage struct {
	script string
	dir    string // of the repository
	temp   string // RUNNER_TEMP
}

// newStage returns the scripts of the job's steps whose names contain step.
func newStage(t *testing.T, job, step string, standIns map[string]string) *stage {
	t.Helper()
	s := &stage{dir: tree(t), temp: t.TempDir()}
	for _, each := range workflows(t)["release.yml"].Jobs[job].Steps {
		if each.Run != "" && strings.Contains(each.Name, step) {
			s.script += "(\n" + each.Run + ")\n"
		}
	}
	if s.script == "" {
		t.Fatalf("the job %s has no step %q", job, step)
	}
	bin := t.TempDir()
	for name, script := range standIns {
		must(t, os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/bash\n"+script), 0o700))
	}
	s.script = "PATH='" + bin + "':$PATH\n" + s.script
	return s
}

// run runs the scripts as GitHub's runner does. If they fail, they must print want. If want is "", they must succeed.
func (s *stage) run(t *testing.T, want string, env ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", s.script)
	cmd.Dir = s.dir
	cmd.Env = append(cmd.Environ(), "RUNNER_TEMP="+s.temp)
	cmd.Env = append(cmd.Env, env...)
	out, err := cmd.CombinedOutput()
	if (err == nil) != (want == "") || !strings.Contains(string(out), want) {
		t.Errorf("%q: %v %s, not %q", env, err, out, want)
	}
}

// TestTagsAreChecked: the release workflow rejects a version that is already released or invalid, a commit that is not
// on main, and a commit whose tests have not passed.
func TestTagsAreChecked(t *testing.T) {
	t.Parallel()
	s := newStage(t, "check", "", map[string]string{"gh": `
		case "$*" in
		"release list --limit 1000 --json tagName --jq .[].tagName") printf 'v0.1.0-rc.1\nv0.0.9\n' ;;
		"run list --workflow test.yml --branch main --event push --commit $(git rev-parse HEAD) --status success "*)
			echo "${PASSED:-0}" ;;
		*) echo "gh $*" >&2; exit 2 ;;
		esac`})
	s.run(t, "is not on main", "VERSION=v0.1.0", "PASSED=1")
	shell(t, `git -C "$1" checkout --quiet origin/main`, s.dir)
	s.run(t, "", "VERSION=v0.1.0", "PASSED=1")
	s.run(t, "", "VERSION=v0.2.0-rc.1", "PASSED=2")
	s.run(t, "no run of test.yml on main passed", "VERSION=v0.1.0")
	s.run(t, "v0.0.9 is released already", "VERSION=v0.0.9", "PASSED=1")
	for _, version := range hostile {
		s.run(t, "write it as v0.1.0", "VERSION="+version, "PASSED=1")
	}
	if _, err := os.Stat(filepath.Join(s.dir, "x")); err == nil {
		t.Error("a version ran as a command")
	}
	first := newStage(t, "check", "not released yet", map[string]string{"gh": "echo no network >&2; exit 1\n"})
	first.run(t, "no network", "VERSION=v0.1.0")
}

// TestTheKeyIsGuarded: only the job release has the key. It waits for the job check, and its environment can require an
// approval.
func TestTheKeyIsGuarded(t *testing.T) {
	t.Parallel()
	for file, w := range workflows(t) {
		for name, job := range w.Jobs {
			for _, step := range job.Steps {
				if strings.Contains(step.Env["RELEASE_KEY"], "secrets.") &&
					(job.Environment != "release" || job.Needs != "check") {
					t.Errorf("%s: the job %s has the key, and lacks environment: release or needs: check", file, name)
				}
			}
		}
	}
	if n := strings.Count(string(read(t, "../../.github/workflows", "release.yml")), "secrets."); n != 1 {
		t.Errorf("release.yml uses %d secrets, not RELEASE_KEY alone", n)
	}
}

// TestImagesAreSigned: each image is signed before the next push, so that a failure leaves none unsigned. Images pushed
// by an earlier run are signed, too.
func TestImagesAreSigned(t *testing.T) {
	t.Parallel()
	s := newStage(t, "release", "push and sign", map[string]string{
		"docker": "cat >/dev/null\n",
		"go": `for last; do :; done
			[ "$last" != "$FAIL" ] || { echo broken >&2; exit 1; }
			[ -f "$RUNNER_TEMP/signed" ] && echo "found $last@sha256:1" || echo "pushed $last@sha256:1"
			echo "pushed $last@sha256:2"`,
		"cosign": `echo "$*" >>"$RUNNER_TEMP/signed"`,
	})
	env := []string{"VERSION=v0.1.0", "GITHUB_REPOSITORY_OWNER=Edge", "GITHUB_ACTOR=me", "GITHUB_TOKEN=t"}
	sign := func(repository string) string {
		return "sign --yes " + repository + "@sha256:1\nsign --yes " + repository + "@sha256:2\n"
	}
	chart := "ghcr.io/edge/charts/capgate"
	s.run(t, "broken", append(env, "FAIL="+chart)...)
	want := sign("ghcr.io/edge/capgate") + sign("ghcr.io/edge/capgate-forward")
	if got := string(read(t, s.temp, "signed")); got != want {
		t.Errorf("with a failure at the chart, cosign got\n%s", got)
	}
	s.run(t, "", append(env, "FAIL=")...)
	if got := string(read(t, s.temp, "signed")); got != want+want+sign(chart) {
		t.Errorf("finally, cosign got\n%s", got)
	}
}
