package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/capgate/capgate/internal/testkit/check"
)

// TestDashboardsAreUpToDate: the committed dashboards equal the output of this program, and there are no others.
func TestDashboardsAreUpToDate(t *testing.T) {
	t.Parallel()
	check.Must(t, run("../..", true))
}

// TestSuperfluousDashboards: the check rejects a dashboard that is no longer generated.
func TestSuperfluousDashboards(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	check.Must(t, run(root, false))
	check.Must(t, run(root, true))
	former := filepath.Join(root, "deploy/grafana/dashboards/former.json")
	check.Must(t, os.WriteFile(former, nil, 0o600))
	if err := run(root, true); err == nil || !strings.Contains(err.Error(), former+" has no source") {
		t.Errorf("with a former dashboard: %v", err)
	}
}

// TestTitlesAreUnique: panels have unique titles, so that a title in a link, an image or a report identifies a panel.
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
