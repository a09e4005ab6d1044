package initfiles_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/capgate/capgate/internal/initfiles"
	"github.com/capgate/capgate/internal/testkit/check"
)

// names returns the files and directories below a directory.
func names(t *testing.T, dir string) string {
	t.Helper()
	var all []string
	check.Must(t, filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if path != dir {
			all = append(all, strings.TrimPrefix(path, dir+"/"))
		}
		return err
	}))
	return strings.Join(all, " ")
}

// TestWriteIsAllOrNothing: a file that exists stays as it is, and no other file or directory is left then; nor if a
// file cannot be written in the middle.
func TestWriteIsAllOrNothing(t *testing.T) {
	t.Parallel()
	files := []initfiles.File{{Path: "a/b/one", Mode: 0o644, Text: "1"}, {Path: "secret", Mode: 0o600, Text: "2"}}
	dir := filepath.Join(t.TempDir(), "made")
	check.Must(t, initfiles.Write(dir, files))
	if got := names(t, dir); got != "a a/b a/b/one secret" {
		t.Errorf("written: %s", got)
	}
	for name, mode := range map[string]fs.FileMode{"a/b/one": 0o644, "secret": 0o600, "a": 0o755 | fs.ModeDir} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Mode() != mode {
			t.Errorf("%s: %v %v", name, info.Mode(), err)
		}
	}

	check.Must(t, os.Remove(filepath.Join(dir, "a/b/one")))
	check.Must(t, os.WriteFile(filepath.Join(dir, "secret"), []byte("mine"), 0o600))
	err := initfiles.Write(dir, files)
	if !errors.Is(err, fs.ErrExist) || !strings.Contains(err.Error(), dir+"/secret exists; name another directory") {
		t.Errorf("a file that exists: %v", err)
	}
	if text, err := os.ReadFile(filepath.Join(dir, "secret")); err != nil || string(text) != "mine" {
		t.Errorf("it was overwritten: %q %v", text, err)
	}
	if got := names(t, dir); got != "a a/b secret" {
		t.Errorf("left: %s", got)
	}

	check.Must(t, os.Remove(filepath.Join(dir, "secret")))
	check.Must(t, os.Symlink("nowhere", filepath.Join(dir, "secret")))
	if err := initfiles.Write(dir, files); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a link that leads nowhere: %v", err)
	}
	if got := names(t, dir); got != "a a/b secret" {
		t.Errorf("left beside a link: %s", got)
	}

	if err := initfiles.Write(dir+"/a/file", append(files, files[0])); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a file twice: %v", err)
	}
	if got := names(t, dir); got != "a a/b secret" {
		t.Errorf("left of a file twice: %s", got)
	}

	check.Must(t, os.Remove(filepath.Join(dir, "secret")))
	check.Must(t, os.WriteFile(filepath.Join(dir, "secret"), nil, 0o600))
	if err := initfiles.Write(dir+"/secret", files); err == nil || errors.Is(err, fs.ErrExist) {
		t.Errorf("below a file: %v", err)
	}

	parent := t.TempDir()
	if err := initfiles.Write(parent+"/x/y", append(files, initfiles.File{Path: "secret/inside"})); err == nil {
		t.Error("a file is a directory")
	}
	if got := names(t, parent); got != "" {
		t.Errorf("left after a failure: %s", got)
	}
}

// TestOwner: if root writes files, a file with an owner is its owner's.
func TestOwner(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root gives files away")
	}
	dir := t.TempDir()
	check.Must(t, initfiles.Write(dir, []initfiles.File{{Path: "root", Mode: 0o600}, {Path: "own", Mode: 0o600,
		Owner: 65532}}))
	for name, want := range map[string]uint32{"root": 0, "own": 65532} {
		info, err := os.Stat(filepath.Join(dir, name))
		check.Must(t, err)
		if is, ok := info.Sys().(*syscall.Stat_t); !ok || is.Uid != want || is.Gid != want {
			t.Errorf("%s is owned by %+v, want %d", name, info.Sys(), want)
		}
	}
}
