package generated_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/capgate/capgate/internal/lib/generated"
	"github.com/capgate/capgate/internal/testkit/check"
)

// TestPut: files are written with their directories. A check accepts them, refuses a file that differs or is missing,
// and writes nothing. A directory with files of its own has no others.
func TestPut(t *testing.T) {
	t.Parallel()
	dir, files := t.TempDir(), map[string][]byte{"a/b": []byte("1"), "c": nil}
	if err := generated.Put(dir, files, true); err == nil || !strings.Contains(err.Error(), "is out of date") {
		t.Errorf("files that are missing: %v", err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("a check wrote %v, %v", left, err)
	}
	check.Must(t, generated.Put(dir, files, false))
	check.Must(t, generated.Put(dir, files, true))
	check.Must(t, os.WriteFile(filepath.Join(dir, "a/b"), []byte("2"), 0o600))
	if err := generated.Put(dir, files, true); err == nil ||
		!strings.HasPrefix(err.Error(), filepath.Join(dir, "a/b")+" is out of date") {
		t.Errorf("a file that differs: %v", err)
	}
	if text, err := os.ReadFile(filepath.Join(dir, "a/b")); err != nil || string(text) != "2" {
		t.Errorf("a check wrote %q, %v", text, err)
	}
	delete(files, "a/b")
	check.Must(t, generated.Put(dir, files, true))
	for _, owned := range []string{"a", "."} {
		if err := generated.Put(dir, files, true, owned); err == nil ||
			err.Error() != filepath.Join(dir, "a/b")+" has no source: delete it" {
			t.Errorf("%s has a file that is not generated: %v", owned, err)
		}
	}
}
