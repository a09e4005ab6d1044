package main

import (
	"bytes"
	"encoding/json"
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

// No two panels have the same title: a title in a link, a picture or a report names one panel.
func TestTitlesAreUnique(t *testing.T) {
	t.Parallel()
	type panel struct {
		Title, Type string
		Panels      []panel
	}
	seen := map[string]string{}
	var visit func(file string, all []panel)
	visit = func(file string, all []panel) {
		for _, p := range all {
			if visit(file, p.Panels); p.Type == "row" {
				continue
			}
			if before, there := seen[p.Title]; there {
				t.Errorf("%s and %s both have a panel %q", before, file, p.Title)
			}
			seen[p.Title] = file
		}
	}
	for name, text := range files() {
		var board struct{ Panels []panel }
		check.Must(t, json.Unmarshal(text, &board))
		visit(name, board.Panels)
	}
	if len(seen) < 100 {
		t.Errorf("only %d titles", len(seen))
	}
}
