package cli

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/capgate/capgate/internal/lib/untrusted"
)

// table is rows of cells in aligned columns. Cells hold untrusted text, and print on one line.
type table struct {
	rows  [][]string
	color bool // of states
}

// newTable returns a table with the names of its columns.
func newTable(columns ...string) *table { return &table{rows: [][]string{columns}} }

// row adds a row. An empty cell prints as "-".
func (t *table) row(cells ...any) {
	row := make([]string, len(cells))
	for i, c := range cells {
		row[i] = untrusted.Word(fmt.Sprint(c))
	}
	t.rows = append(t.rows, row)
}

// print writes the table. The last column may be ragged.
func (t *table) print(w io.Writer) {
	var widths []int
	for _, row := range t.rows {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	for n, row := range t.rows {
		var line strings.Builder
		for i, cell := range row {
			line.WriteString(t.paint(n, cell))
			if i+1 < len(row) {
				line.WriteString(strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell)+2))
			}
		}
		fmt.Fprintln(w, line.String())
	}
}

// Sequences for colors of terminals (ECMA-48, SGR).
const (
	bold   = "\x1b[1m"
	green  = "\x1b[32m"
	red    = "\x1b[31m"
	yellow = "\x1b[33m"
	plain  = "\x1b[0m"
)

// stateColors are the colors of words that are states.
var stateColors = map[string]string{
	"up": green, "accepted": green, "approved": green, "pass": green, "ready": green,
	"down": red, "denied": red, "fail": red, "not ready": red, "block": red,
	"draining": yellow, "ejected": yellow, "drifted": yellow, "pending": yellow, "ask": yellow,
	"not checked": yellow,
}

// paint colors a cell, if the table is for a terminal.
func (t *table) paint(row int, cell string) string {
	color := stateColors[cell]
	switch {
	case !t.color:
		return cell
	case row == 0:
		color = bold
	}
	if color == "" {
		return cell
	}
	return color + cell + plain
}

// details prints names and values, one pair a line; a pair without a value is left out.
func details(w io.Writer, pairs ...[2]string) {
	widest := 0
	for _, p := range pairs {
		widest = max(widest, len(p[0]))
	}
	for _, p := range pairs {
		if p[1] != "" {
			fmt.Fprintf(w, "%-*s  %s\n", widest, p[0], untrusted.Lines(p[1], widest+2))
		}
	}
}
