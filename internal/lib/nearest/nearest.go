// Package nearest finds the known name that a mistyped one is closest to, for errors that say "did you mean".
package nearest

import (
	"slices"
	"strings"
)

const (
	// longest bounds the names that are compared, in bytes: the cost grows with the product of the two.
	longest = 128
	// most bounds how many names are compared, for lists that grow with an installation.
	most = 1000
)

// To returns the name that differs from word in the fewest letters, "" where none is close.
// Letters' case does not count.
func To(word string, names []string) string {
	if word == "" || len(word) > longest {
		return ""
	}
	best, least := "", max(1, len(word)/3)+1
	for _, name := range names[:min(len(names), most)] {
		if len(name) > longest {
			continue
		}
		if d := distance(strings.ToLower(word), strings.ToLower(name)); d < least {
			best, least = name, d
		}
	}
	return best
}

// Hint is what an error appends: `; did you mean "name"?`, or "" where no name is close.
func Hint(word string, names []string) string {
	if name := To(word, names); name != "" {
		return `; did you mean "` + name + `"?`
	}
	return ""
}

// List is names for an error, sorted, at most so many, and how many more there are is left to "…".
func List(names []string, most int) string {
	sorted := slices.Sorted(slices.Values(names))
	if len(sorted) > most {
		sorted = append(sorted[:most:most], "…")
	}
	return strings.Join(sorted, ", ")
}

// distance is how many bytes have to be put in, left out, changed or swapped with the next one
// (optimal string alignment).
func distance(a, b string) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := range len(a) {
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			row[j+1] = min(last[j+1]+1, row[j]+1, last[j]+cost)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
