package cli

import (
	"slices"
	"strings"
	"unicode/utf8"
)

const (
	columnGap = 2  // columns of the terminal between those of a table
	readable  = 14 // the least width of a column of texts
)

// fit makes the table as wide as the terminal: it leaves out columns without values, then spare ones, and breaks long
// cells into lines. It returns the names of left out columns that have values.
func (t *table) fit() (left []string) {
	if t.width <= 0 {
		return nil
	}
	for i := len(t.rows[0]) - 1; i > 0 && t.most() < readable; i-- {
		if !slices.ContainsFunc(t.rows[1:], func(row []string) bool { return row[i] != "-" }) {
			t.drop(i)
		}
	}
	for _, name := range t.spare {
		if i := slices.Index(t.rows[0], name); i >= 0 && t.most() < readable {
			t.drop(i)
			left = append(left, name)
		}
	}
	return left
}

func (t *table) drop(column int) {
	for i, row := range t.rows {
		t.rows[i] = slices.Delete(slices.Clone(row), column, column+1)
	}
}

// widths returns the width of the longest cell of each column.
func (t *table) widths() []int {
	widths := make([]int, len(t.rows[0]))
	for _, row := range t.rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	return widths
}

// most returns the greatest width of a column with which the table fits the terminal. Ids stay whole, so that they can
// be copied.
func (t *table) most() int {
	widths := t.widths()
	left := t.width - columnGap*(len(widths)-1)
	var others []int
	for i, w := range widths {
		if unbroken(t.rows[0][i]) {
			left -= w
		} else {
			others = append(others, w)
		}
	}
	slices.Sort(others)
	for i, w := range others { // those that are narrower than an equal share leave more to the others
		if share := left / (len(others) - i); w > share {
			return max(share, 1)
		}
		left -= w
	}
	return t.width
}

// unbroken reports whether the cells of a column are never broken.
func unbroken(column string) bool { return column == "ID" || column == "SESSION" }

// lines breaks a cell into lines of at most so many characters, at spaces where there are some.
func lines(cell string, most int) (all []string) {
	rest := []rune(cell)
	for len(rest) > most {
		end := most
		for i := most; i > most/2; i-- {
			if rest[i] == ' ' || rest[i-1] == ',' {
				end = i
				break
			}
		}
		all = append(all, strings.TrimRight(string(rest[:end]), " "))
		for rest = rest[end:]; len(rest) > 0 && rest[0] == ' '; {
			rest = rest[1:]
		}
	}
	return append(all, string(rest))
}
