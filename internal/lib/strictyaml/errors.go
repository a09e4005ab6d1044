package strictyaml

import (
	"fmt"
	"strings"
)

// Error is one problem of a file.
type Error struct {
	File string
	Line int    // from 1; 0: unknown
	Path string // the field, "fleets[0].backends[1]"; "" for the file as a whole
	Text string // the problem, and a correct form
}

func (e Error) Error() string {
	text := e.File
	if e.Line > 0 {
		text = fmt.Sprintf("%s:%d", e.File, e.Line)
	}
	if e.Path != "" {
		text += ": " + e.Path
	}
	return text + ": " + e.Text
}

// Errors are all problems of a file in the order of its lines.
type Errors []Error

// Error returns one line for each problem.
func (e Errors) Error() string {
	lines := make([]string, len(e))
	for i := range e {
		lines[i] = e[i].Error()
	}
	return strings.Join(lines, "\n")
}
