package operator_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/capgate/capgate/internal/operator"
	"github.com/capgate/capgate/internal/testkit/check"
)

// TestFileOfTheStartToken: programs of the same user find the token of an address in a file that no other user can
// read, until the process ends. A file that others may read, or a link, is no such file.
func TestFileOfTheStartToken(t *testing.T) {
	t.Parallel()
	const admin = "localhost:8080"
	dir, token := t.TempDir(), operator.NewStartToken()
	read := func() string {
		text, err := operator.ReadStartToken(dir, admin)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return "none"
		case err != nil:
			return "refused"
		}
		return text
	}
	if got := read(); got != "none" {
		t.Errorf("before the start: %q", got)
	}
	remove, err := operator.WriteStartToken(dir, admin, token)
	check.Must(t, err)
	file := filepath.Join(dir, "capgate", "admin-127.0.0.1-8080")
	if got := read(); got != token {
		t.Errorf("%q", got)
	}
	for name, mode := range map[string][2]fs.FileMode{"the group": {0o640, 0o700}, "others": {0o604, 0o700},
		"the directory": {0o600, 0o710}, "nobody else": {0o600, 0o700}} {
		check.Must(t, errors.Join(os.Chmod(file, mode[0]), os.Chmod(filepath.Dir(file), mode[1])))
		want := "refused"
		if name == "nobody else" {
			want = token
		}
		if got := read(); got != want {
			t.Errorf("%s may read it: %q", name, got)
		}
	}
	if err := errors.Join(os.Chmod(filepath.Dir(file), 0o700), os.Chmod(file, 0o600), os.Rename(file, file+".own"),
		os.Symlink(file+".own", file)); err != nil {
		t.Fatal(err)
	}
	if got := read(); got != "refused" {
		t.Errorf("a link: %q", got)
	}
	next := operator.NewStartToken()
	removeNext, err := operator.WriteStartToken(dir, admin, next)
	check.Must(t, err)
	if remove(); read() != next {
		t.Error("the end of a process removes the token of another")
	}
	if removeNext(); read() != "none" {
		t.Error("the token outlasts its process")
	}
}
