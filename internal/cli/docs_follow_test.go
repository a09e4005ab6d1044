package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/capgate/capgate/internal/testkit/check"
)

// follower executes the blocks of a page in a directory of its own, as a reader does.
type follower struct {
	t       *testing.T
	page    string
	dir     string
	env     []string
	replace *strings.Replacer // of ports, and of the clone of the repository
}

// files writes the blocks "file=NAME".
func (f *follower) files() {
	f.t.Helper()
	for _, b := range blocks(f.t, f.page) {
		if _, name, ok := strings.Cut(b.info, " file="); ok {
			file := filepath.Join(f.dir, name)
			check.Must(f.t, os.MkdirAll(filepath.Dir(file), 0o700))
			check.Must(f.t, os.WriteFile(file, []byte(f.replace.Replace(b.text)), 0o600))
		}
	}
}

// script returns the text of a block, by its info.
func (f *follower) script(info string) (text string, output string) {
	f.t.Helper()
	all := blocks(f.t, f.page)
	for i, b := range all {
		if b.info != info {
			continue
		}
		if i+1 < len(all) && strings.HasSuffix(all[i+1].info, " output") {
			output = all[i+1].text
		}
		return f.replace.Replace(b.text), output
	}
	f.t.Fatalf("%s has no block %q", f.page, info)
	return "", ""
}

// run executes a script, and returns what it prints.
func (f *follower) run(script string) string {
	f.t.Helper()
	cmd := exec.CommandContext(f.t.Context(), "sh", "-eu", "-c", script)
	cmd.Dir, cmd.Env = f.dir, f.env
	out, err := cmd.CombinedOutput()
	if err != nil {
		f.t.Fatalf("%s: %s: %v\n%s", f.page, script, err, out)
	}
	return string(out)
}

// step executes the block of an info, which prints the output that the page shows.
func (f *follower) step(info string) {
	f.t.Helper()
	script, want := f.script(info)
	if out := f.run(script); want != "" && !matches(strings.ReplaceAll(out, "\n", ""), strings.TrimSpace(want)) {
		f.t.Errorf("%s: %s prints\n%s\nand not\n%s", f.page, script, out, want)
	}
}

// serve starts the program of a block, until the test ends.
func (f *follower) serve(info string) *program {
	f.t.Helper()
	script, _ := f.script(info)
	cmd := exec.Command("sh", "-c", "exec "+strings.TrimSpace(script))
	cmd.Dir, cmd.Env = f.dir, f.env
	return launch(f.t, cmd)
}

// follow prepares to follow a page, with capgate in the PATH. replace are further words of the page and others.
func follow(t *testing.T, page string, path []string, replace ...string) *follower {
	t.Helper()
	self, err := os.Executable()
	check.Must(t, err)
	bin := t.TempDir()
	check.Must(t, os.Symlink(self, filepath.Join(bin, "capgate")))
	clone, err := filepath.Abs(root)
	check.Must(t, err)
	paths := strings.Join(append(append([]string{bin}, path...), os.Getenv("PATH")), string(os.PathListSeparator))
	var env []string
	for _, v := range cleanEnv() {
		if !isPath(v) {
			env = append(env, v)
		}
	}
	env = append(env, "PATH="+paths, asCommand+"=link", noRaceWait, "PYTHONDONTWRITEBYTECODE=1",
		"GOFLAGS="+strings.TrimSpace(os.Getenv("GOFLAGS")+" -mod=mod"))
	return &follower{t: t, page: page, dir: t.TempDir(), env: env,
		replace: strings.NewReplacer(append(replace, "~/capgate", clone)...)}
}

// stepWith returns the block "sh step…" with certain words.
func stepWith(t *testing.T, page, words string) string {
	t.Helper()
	for _, b := range blocks(t, page) {
		if strings.HasPrefix(b.info, "sh step") && strings.Contains(b.text, words) {
			return b.text
		}
	}
	t.Fatalf("%s has no step with %q", page, words)
	return ""
}
