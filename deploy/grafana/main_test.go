package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/capgate/capgate/internal/testkit/check"
)

// The committed dashboards are what this program writes, and there are no others.
func TestDashboardsAreUpToDate(t *testing.T) {
	t.Parallel()
	all := files()
	for name, want := range all {
		got, err := os.ReadFile(filepath.Join("dashboards", name))
		check.Must(t, err)
		if !bytes.Equal(got, want) {
			t.Errorf("dashboards/%s is out of date: run `make generate` and commit", name)
		}
	}
	committed, err := os.ReadDir("dashboards")
	check.Must(t, err)
	if len(committed) != len(all) {
		t.Errorf("dashboards/ has %d files, not the %d that are made", len(committed), len(all))
	}
}
