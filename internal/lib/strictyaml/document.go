package strictyaml

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
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
		r.Errors = append(r.Errors, syntaxError(r.File, err))
		return Place{}, false
	case len(doc.Content) == 0 || doc.Content[0].Tag == "!!null":
		r.Fail(Place{Node: &yaml.Node{Line: 1}}, "the file is empty; %s", empty)
		return Place{}, false
	}
	return Place{Node: doc.Content[0]}, r.wellFormed(doc.Content[0])
}

// syntaxError takes the line out of the text of yaml's error, "yaml: line 3: …". The line is nowhere else.
func syntaxError(file string, err error) Error {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	line := 1
	if rest, ok := strings.CutPrefix(text, "line "); ok {
		if number, cause, ok := strings.Cut(rest, ": "); ok {
			if n, err := strconv.Atoi(number); err == nil {
				line, text = n, cause
			}
		}
	}
	return Error{File: file, Line: line, Text: "not YAML: " + text}
}

// Err returns nil, or an Errors with every problem of the file in the order of its lines.
func (r *Reader) Err() error {
	if len(r.Errors) == 0 {
		return nil
	}
	slices.SortStableFunc(r.Errors, func(a, b Error) int { return a.Line - b.Line })
	return r.Errors
}
