package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
)

// folder is the directory of the pictures, relative to the root of the repository.
const folder = "docs/images"

// theme holds the colors of a page. The names are those in overview.svg.
type theme struct{ name, back, pane, ink, dim, line, accent, good, wait string }

func themes() []theme {
	return []theme{
		{"light", "#ffffff", "#f6f8fa", "#1f2328", "#59636e", "#d1d9e0", "#0969da", "#1a7f37", "#9a6700"},
		{"dark", "#0d1117", "#151b23", "#f0f6fc", "#9198a1", "#3d444d", "#4493f8", "#3fb950", "#d29922"},
	}
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := draw(ctx); err != nil {
		stop()
		log.Fatal(err)
	}
}

func draw(ctx context.Context) error {
	overview, err := os.ReadFile(filepath.Join(folder, "overview.svg"))
	if err != nil {
		return err
	}
	scenes, err := record(ctx)
	if err != nil {
		return err
	}
	for _, t := range themes() {
		pictures := map[string]string{
			"overview-" + t.name:        t.paint(string(overview)),
			"approval-" + t.name:        wide.film(t, scenes),
			"approval-narrow-" + t.name: narrow.film(t, scenes),
		}
		for name, svg := range pictures {
			if err := os.WriteFile(filepath.Join(folder, name+".svg"), []byte(svg), 0o644); err != nil {
				return fmt.Errorf("writing a picture: %w", err)
			}
		}
	}
	return nil
}

// paint replaces the names of colors, such as @ink, by those of the theme.
func (t theme) paint(svg string) string {
	return strings.NewReplacer("@back", t.back, "@pane", t.pane, "@ink", t.ink, "@dim", t.dim, "@line", t.line,
		"@accent", t.accent, "@good", t.good, "@wait", t.wait).Replace(svg)
}
