package main

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/capgate/capgate/internal/lib/generated"
	"github.com/capgate/capgate/internal/testkit/check"
)

const root = "../../.."

// TestTheChartIsGenerated: the files of the chart equal their sources.
func TestTheChartIsGenerated(t *testing.T) {
	t.Parallel()
	check.Must(t, run(root, true))
}

// TestDriftIsReported: a file that differs from its source, and one without a source, are errors.
func TestDriftIsReported(t *testing.T) {
	t.Parallel()
	files, err := generate(root)
	check.Must(t, err)
	for name, want := range map[string]string{
		"files/redis.acl":     "is out of date",
		"files/rules/old.yml": "has no source",
	} {
		dir := t.TempDir()
		check.Must(t, generated.Put(dir, files, false))
		check.Must(t, os.WriteFile(filepath.Join(dir, name), []byte("other"), 0o600))
		if err := generated.Put(dir, files, true, "files"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
}

// TestRestarts: fields whose change takes effect at once do not cause a restart, even inside other fields.
func TestRestarts(t *testing.T) {
	t.Parallel()
	field := func(note string, fields schema) schema {
		return schema{"description": "A field. " + note, "properties": fields}
	}
	all := restarts(schema{"properties": schema{
		"a": field(restartAll, schema{"b": field(restartNever, nil), "c": field("", schema{
			"d": field(restartNever, nil)})}),
		"e": field(restartSwitch, nil),
		"f": field("", schema{"g": field(restartAll, nil)}),
	}}, nil)
	want := []restart{
		{Path: []string{"a"}, Without: [][]string{{"a", "b"}, {"a", "c", "d"}}},
		{Path: []string{"e"}, Switch: true},
		{Path: []string{"f", "g"}},
	}
	if !reflect.DeepEqual(all, want) {
		t.Errorf("restarts: %v, not %v", all, want)
	}
}
