package strictyaml

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

// Document returns the place of the file's one document. It records the error and returns false if there is not
// exactly one, of a form that all readers understand alike. The argument thing names the content of the file, as in "a
// configuration"; empty is the error for an empty file.
func (r *Reader) Document(data []byte, thing, empty string) (Place, bool) {
	var doc, more yaml.Node
	d := yaml.NewDecoder(bytes.NewReader(data))
	err := d.Decode(&doc)
	if err == nil {
		if err = d.Decode(&more); err == nil {
			r.Fail(Place{Node: &more}, "a second document begins here; %s is one document", thing)
			return Place{}, false
		}
	}
	switch {
	case !errors.Is(err, io.EOF):
		r.Errors = append(r.Errors, syntaxError(r.File, data, err))
		return Place{}, false
	case len(doc.Content) == 0 || doc.Content[0].Tag == "!!null":
		r.Fail(Place{Node: &yaml.Node{Line: 1}}, "the file is empty; %s", empty)
		return Place{}, false
	}
	return Place{Node: doc.Content[0]}, r.wellFormed(doc.Content[0])
}

// syntaxError places an error of the library where the reading stopped, or at the beginning of what the end of the file
// leaves open.
func syntaxError(file string, data []byte, err error) Error {
	var at *yaml.LoadError
	if !errors.As(err, &at) {
		return Error{File: file, Line: 1, Text: "not YAML: " + strings.TrimPrefix(err.Error(), "yaml: ")}
	}
	lines := bytes.Split(bytes.TrimRight(data, " \r\n"), []byte("\n"))
	line, text := min(at.Mark.Line, len(lines)), at.Message
	if line == 0 { // not a character: its place is counted in bytes
		line = 1 + bytes.Count(data[:min(at.Mark.Index, len(data))], []byte("\n"))
	}
	switch open := at.ContextMark.Line; {
	case strings.Contains(text, "cannot start any token"):
		text = wrongCharacter(lines[line-1], at.Mark.Column)
	case open > 0 && open != at.Mark.Line:
		text += fmt.Sprintf(", %s that begins in line %d", at.ContextMsg, open)
		if at.Mark.Line > len(lines) {
			line = open
		}
	}
	return Error{File: file, Line: line, Text: "not YAML: " + text}
}

// wrongCharacter describes a character with which no value begins, at a column that counts from 1.
func wrongCharacter(line []byte, column int) string {
	text := []rune(string(line))
	switch column = min(max(column, 1), len(text)); {
	case column == 0:
		return "found character that cannot start any token"
	case text[column-1] == '\t':
		return "a tab indents the line; YAML indents with spaces"
	}
	return fmt.Sprintf("no value begins with %q, unless it is quoted", text[column-1])
}

// Err returns nil, or an Errors with every problem of the file in the order of its lines.
func (r *Reader) Err() error {
	if len(r.Errors) == 0 {
		return nil
	}
	slices.SortStableFunc(r.Errors, func(a, b Error) int { return a.Line - b.Line })
	return r.Errors
}
