package main

import (
	"testing"
)

// TestTablesAreDefinitions: a man page has no tables, because terminals are too narrow for them.
func TestTablesAreDefinitions(t *testing.T) {
	t.Parallel()
	got := withoutTables("before\n\n| field | value | meaning |\n|---|---|---|\n" +
		"| `a` | x \\| y | first |\n| `b` |  | second |\n\nafter\n")
	want := "before\n\n`a`\n: value: x | y. first\n\n`b`\n: second\n\n\nafter\n"
	if got != want {
		t.Errorf("got\n%q, want\n%q", got, want)
	}
}
