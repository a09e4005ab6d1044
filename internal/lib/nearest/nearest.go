// Package nearest finds the known name closest to a mistyped one, for errors that say "did you mean".
package nearest

import (
	"slices"
	"strings"
)

const (
	// maxLength bounds the names that are compared, in bytes. The cost grows with the product of both lengths.
	maxLength = 128
	// maxNames bounds how many names are compared, for lists that grow with an installation.
	maxNames = 1000
)

// To returns the name that differs from word in the fewest letters, or "" if none is close. It ignores case.
func To(word string, names []string) string {
	if word == "" || len(word) > maxLength {
		return ""
	}
	best, least := "", max(1, len(word)/3)+1
	for _, name := range names[:min(len(names), maxNames)] {
		if len(name) > maxLength {
			continue
		}
		if d := distance(strings.ToLower(word), strings.ToLower(name)); d < least {
			best, least = name, d
		}
	}
	return best
}

// Hint returns the end of an error, `; did you mean "name"?`, or "" if no name is close.
func Hint(word string, names []string) string {
	if name := To(word, names); name != "" {
		return `; did you mean "` + name + `"?`
	}
	return ""
}

// List returns a sorted list of at most so many names for an error. An ellipsis replaces the others.
func List(names []string, most int) string {
	sorted := slices.Sorted(slices.Values(names))
	if len(sorted) > most {
		sorted = append(sorted[:most:most], "…")
	}
	return strings.Join(sorted, ", ")
}

// distance returns how many bytes have to be inserted, deleted, replaced or swapped with the next one (optimal
// string alignment).
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
