package initfiles_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
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
	if !errors.Is(err, fs.ErrExist) || !strings.Contains(err.Error(), dir+"/secret") {
		t.Errorf("a file that exists: %v", err)
	}
	if text, err := os.ReadFile(filepath.Join(dir, "secret")); err != nil || string(text) != "mine" {
		t.Errorf("it was overwritten: %q %v", text, err)
	}
	if got := names(t, dir); got != "a a/b secret" {
		t.Errorf("left: %s", got)
	}

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
