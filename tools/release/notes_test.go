package main

import "testing"

// TestSection: notes are the text below the heading of their version, with links to the tag.
func TestSection(t *testing.T) {
	t.Parallel()
	changelog := "# Changelog\n\n## [Unreleased]\n\n- new\n\n## [0.2.0] - 2026-12-01\n\n### Added\n\n" +
		"- see [upgrade](docs/run/upgrade.md#versions)\n\n## [0.1.0] - 2026-11-01\n\n- first\n"
	for version, want := range map[string]string{
		"Unreleased": "- new",
		"0.2.0":      "### Added\n\n- see [upgrade](" + project + "/blob/v0.2.0/docs/run/upgrade.md#versions)",
		"0.1.0":      "- first",
		"0.1":        "",
		"0.3.0":      "",
	} {
		if got := section(changelog, version, "v"+version); got != want {
			t.Errorf("%s: %q, not %q", version, got, want)
		}
	}
}
