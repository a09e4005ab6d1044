// Package lua holds the programs that Redis runs for package redisstore: each is a file, and what several of them share
// is in include.
//
// A line "-- include NAME" is replaced by include/NAME.lua, which may have includes of its own. A program gets each
// include once, in one line, and empty lines for comments: the line numbers in errors of Redis are those of the file.
package lua

import (
	"embed"
	"fmt"
	"io/fs"
	"slices"
	"strings"
)

//go:embed *.lua include/*.lua
var files embed.FS

// Source returns the program in the file NAME.lua with its includes.
func Source(name string) (string, error) { return source(files, name) }

func source(files fs.FS, name string) (string, error) {
	p := program{files: files, included: map[string]bool{}}
	text, err := p.load(name)
	if err != nil {
		return "", fmt.Errorf("lua/%s.lua: %w", name, err)
	}
	return text, nil
}

// program is a program that is being composed.
type program struct {
	files    fs.FS
	included map[string]bool
	open     []string // the includes that are being read, outermost first
}

// load returns the text of a file with its includes and without its comments.
func (p *program) load(name string) (string, error) {
	text, err := fs.ReadFile(p.files, name+".lua")
	if err != nil {
		return "", err
	}
	var out strings.Builder
	for line := range strings.Lines(string(text)) {
		if include, ok := strings.CutPrefix(line, "-- include "); ok {
			if line, err = p.include(strings.TrimSpace(include)); err != nil {
				return "", err
			}
			line += "\n"
		} else if strings.HasPrefix(strings.TrimSpace(line), "--") {
			line = "\n"
		}
		out.WriteString(line)
	}
	return out.String(), nil
}

// include returns an include in one line, or an empty line if the program has it already.
func (p *program) include(name string) (string, error) {
	if slices.Contains(p.open, name) {
		return "", fmt.Errorf("include %s includes itself", name)
	}
	if p.included[name] {
		return "", nil
	}
	p.included[name] = true
	p.open = append(p.open, name)
	text, err := p.load("include/" + name)
	p.open = p.open[:len(p.open)-1]
	if err != nil {
		return "", err
	}
	if strings.Contains(text, "--") {
		return "", fmt.Errorf("include %s: a comment must have a line of its own", name)
	}
	return strings.ReplaceAll(strings.TrimSpace(text), "\n", " "), nil
}
