package main

import (
	"regexp"
	"strings"
)

// withoutTables returns Markdown in which each table is a definition list, because terminals are narrower than tables.
// The first cell of a row is the term, and the last one its definition.
func withoutTables(text string) string {
	var all, header []string
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		switch cells := tableCells(line); {
		case cells == nil:
			header = nil
			all = append(all, line)
		case header == nil:
			header = cells
		case !rule.MatchString(line):
			all = append(all, cells[0], ": "+definition(header, cells), "")
		}
	}
	return strings.Join(all, "\n") + "\n"
}

// rule matches the line between the header of a table and its rows.
var rule = regexp.MustCompile(`^\|[-:| ]+\|$`)

// definition returns the definition of a row's first cell.
func definition(header, cells []string) string {
	var all []string
	last := len(cells) - 1
	for i := 1; i < last; i++ {
		if cells[i] != "" {
			all = append(all, header[i]+": "+cells[i]+".")
		}
	}
	return strings.Join(append(all, cells[last]), " ")
}

// tableCells returns the cells of a line of a table, or nil for other lines.
func tableCells(line string) (cells []string) {
	if !strings.HasPrefix(line, "|") || !strings.HasSuffix(line, "|") || len(line) < 3 {
		return nil
	}
	line = strings.ReplaceAll(line[1:len(line)-1], `\|`, "\x00")
	for cell := range strings.SplitSeq(line, "|") {
		cells = append(cells, strings.TrimSpace(strings.ReplaceAll(cell, "\x00", "|")))
	}
	return cells
}
