package cli

import (
	"fmt"
	"io"
	"math"
	"strings"
	"unicode/utf8"

	"github.com/capgate/capgate/internal/lib/untrusted"
)

// table is rows of cells in aligned columns. Cells hold untrusted text, and print on one line, unless the terminal is
// too narrow.
type table struct {
	rows  [][]string
	color bool     // of states
	width int      // columns of the terminal; 0: any number
	none  string   // printed in place of a table without rows; optional
	spare []string // names of the columns that a narrow terminal can do without, the least important first
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

// on makes the table one for the terminal that out is, if it is one. none and spare are fields of the table.
func (t *table) on(out any, none string, spare ...string) *table {
	t.color, t.width, t.none, t.spare = colored(out), widthOf(out), none, spare
	return t
}

// print writes the table. The last column may be ragged.
func (t *table) print(w io.Writer) {
	if len(t.rows) == 1 && t.none != "" {
		fmt.Fprintln(w, t.none)
		return
	}
	left := t.fit()
	widths, most := t.widths(), t.most()
	if t.width <= 0 {
		most = math.MaxInt
	}
	for n, row := range t.rows {
		cells, height := make([][]string, len(row)), 1
		for i, cell := range row {
			if !unbroken(t.rows[0][i]) {
				widths[i] = min(widths[i], most)
			}
			cells[i] = lines(cell, widths[i])
			height = max(height, len(cells[i]))
		}
		for at := range height {
			var line strings.Builder
			for i := range row {
				part := ""
				if at < len(cells[i]) {
					part = cells[i][at]
				}
				line.WriteString(t.paint(n, row[i], part))
				if i+1 < len(row) {
					line.WriteString(strings.Repeat(" ", widths[i]-utf8.RuneCountInString(part)+columnGap))
				}
			}
			fmt.Fprintln(w, strings.TrimRight(line.String(), " "))
		}
	}
	if len(left) > 0 {
		fmt.Fprintf(w, "not shown: %s; a wider terminal or -o json has them\n", strings.Join(left, ", "))
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
	"up": green, "accepted": green, "approved": green, "pass": green, "ready": green, "active": green,
	"allow": green, "OK": green,
	"down": red, "denied": red, "fail": red, "not ready": red, "block": red, "ejected": red, "revoked": red,
	"draining": yellow, "drifted": yellow, "pending": yellow, "ask": yellow, "ramping": yellow,
	"not checked": yellow, "replaced": yellow, "tool error": yellow,
}

// paint colors a part of a cell, if the table is for a terminal.
func (t *table) paint(row int, cell, part string) string {
	color := stateColors[cell]
	switch {
	case !t.color || part == "":
		return part
	case row == 0:
		color = bold
	}
	if color == "" {
		return part
	}
	return color + part + plain
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
