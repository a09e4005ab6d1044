package audit_test

import (
	"bytes"
	"errors"
	"path/filepath"
	"testing"

	"github.com/capgate/capgate/internal/audit"
)

// TestAnotherLog: a log that begins by itself does not pass for the one after another, and neither does one of later.
func TestAnotherLog(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	one, other := filepath.Join(dir, "one"), filepath.Join(dir, "other")
	write(t, one, 1)
	write(t, other, 1)
	first := verify(t, read(t, one), nil).Head
	before := len(read(t, one))
	write(t, one, 1)
	second := verify(t, read(t, one), nil).Head
	after := read(t, one)[before:]
	verify(t, after, &first)
	for name, test := range map[string]struct {
		text   []byte
		follow audit.Head
	}{"another log": {read(t, other), first}, "itself": {after, second}, "an earlier one": {after, audit.Head{}}} {
		_, err := audit.Verify(bytes.NewReader(test.text), &test.follow)
		var broken *audit.Broken
		if !errors.As(err, &broken) || broken.Line != 1 {
			t.Errorf("%s: %v", name, err)
		}
	}
}
