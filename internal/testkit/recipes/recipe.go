package recipes

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Recipe is a section of the document.
type Recipe struct {
	Title string
	Files int // as stated in the section
	Edits []Edit
}

// Edit is a block of code: a new file, or a change of one.
type Edit struct {
	File  string
	Text  string // of the whole file; "" for a change
	Hunks []Hunk
}

// Hunk replaces lines. Trailing space is ignored in the comparison.
type Hunk struct{ Old, New []string }

var (
	stated = regexp.MustCompile(`\*\*(\d+) files\*\*`)
	named  = regexp.MustCompile("^`([^`]+)`:$")
)

// Read reads a document.
func Read(document string) (all []Recipe, err error) {
	for _, section := range strings.Split(document, "\n## ")[1:] {
		title, body, _ := strings.Cut(section, "\n")
		r := Recipe{Title: title}
		if n := stated.FindStringSubmatch(body); n != nil {
			r.Files, _ = strconv.Atoi(n[1]) // digits
		}
		if r.Edits, err = edits(body); err != nil {
			return nil, fmt.Errorf("%s: %w", title, err)
		}
		all = append(all, r)
	}
	return all, nil
}

// edits returns the blocks of a section.
func edits(body string) (all []Edit, err error) {
	lines := strings.Split(body, "\n")
	file := ""
	for i := 0; i < len(lines); i++ {
		if name := named.FindStringSubmatch(lines[i]); name != nil {
			file = name[1]
			continue
		}
		kind, fence := strings.CutPrefix(lines[i], "```")
		if !fence {
			continue
		}
		n := slices.Index(lines[i+1:], "```")
		if n < 0 || file == "" {
			return nil, fmt.Errorf("a block of %s has no end, or no file", kind)
		}
		block := lines[i+1 : i+1+n]
		one := Edit{File: file}
		if kind == "diff" {
			one.Hunks = hunks(block)
		} else {
			one.Text = strings.Join(block, "\n") + "\n"
		}
		all = append(all, one)
		i, file = i+1+n, ""
	}
	return all, nil
}

// hunks returns the parts of a change.
func hunks(lines []string) (all []Hunk) {
	var h Hunk
	for _, line := range append(lines, "@@") {
		switch rest := line[min(1, len(line)):]; {
		case line == "@@":
			all = append(all, h)
			h = Hunk{}
		case strings.HasPrefix(line, "+"):
			h.New = append(h.New, rest)
		case strings.HasPrefix(line, "-"):
			h.Old = append(h.Old, rest)
		default:
			h.Old, h.New = append(h.Old, rest), append(h.New, rest)
		}
	}
	return all
}

// Apply makes an edit below a root.
func (e *Edit) Apply(root string) error {
	name := filepath.Join(root, filepath.FromSlash(e.File))
	text := []byte(e.Text)
	if e.Text == "" {
		old, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if text, err = e.change(old); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o750); err != nil {
		return err
	}
	return os.WriteFile(name, text, 0o600)
}

// change applies the hunks to a text.
func (e *Edit) change(text []byte) ([]byte, error) {
	lines := strings.Split(string(text), "\n")
	for _, h := range e.Hunks {
		at := -1
		for i := range lines {
			if i+len(h.Old) > len(lines) || !slices.EqualFunc(lines[i:i+len(h.Old)], h.Old, same) {
				continue
			}
			if at >= 0 {
				return nil, fmt.Errorf("%s has these lines twice: %q", e.File, h.Old)
			}
			at = i
		}
		if at < 0 {
			return nil, fmt.Errorf("%s lacks these lines: %q", e.File, h.Old)
		}
		lines = slices.Replace(lines, at, at+len(h.Old), h.New...)
	}
	return []byte(strings.Join(lines, "\n")), nil
}

func same(a, b string) bool { return strings.TrimSpace(a) == strings.TrimSpace(b) }
