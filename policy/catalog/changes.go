package catalog

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"

	"github.com/capgate/capgate/internal/lib/untrusted"
	"github.com/capgate/capgate/internal/toolschema"
)

// change is the difference of a drifted tool from its accepted version.
type change struct {
	hash toolschema.Hash // of the drifted tool
	text string
}

// maxChange bounds the text of a change, in bytes. There is one for each drifted tool at most.
const maxChange = 3 << 10

const (
	changedText  = "it has changed since its version was accepted"
	unknownText  = changedText + "; what has changed is not known here"
	moreChanges  = "… (there is more; the tool's page shows all)"
	maxLineBytes = 1 << 10 // of one line of a change
)

// Change returns how a tool differs from its accepted version, from memory; "": it does not. Its first line says that
// the tool has changed. Removed lines begin with "- ", added lines with "+ ".
func (c *Catalog) Change(capability, tool string) string {
	t, there := c.Describe(capability, tool)
	if !there || !t.Drifted {
		return ""
	}
	if known := c.changes.Load(); known != nil {
		if found := (*known)[capability][tool]; found.hash == t.Hash {
			return found.text
		}
	}
	return unknownText
}

// readChanges publishes the changes of all drifted tools. It reads those alone that are not known.
func (c *Catalog) readChanges(ctx context.Context, from Versions) {
	var before map[string]map[string]change
	if known := c.changes.Load(); known != nil {
		before = *known
	}
	next := map[string]map[string]change{}
	for id, of := range *c.snapshot.Load() {
		all := map[string]change{}
		var accepted map[string]Version
		read := false
		for i := range of.tools {
			t := &of.tools[i]
			if !t.Drifted {
				continue
			}
			if found := before[id][t.Name]; found.hash == t.Hash {
				all[t.Name] = found
				continue
			}
			if !read {
				accepted, read = c.AcceptedVersions(ctx, from, id), true
			}
			if v, known := accepted[t.Name]; known {
				all[t.Name] = change{t.Hash, changeOf(&v, t)}
			} else if accepted != nil { // the store was read
				all[t.Name] = change{t.Hash, unknownText}
			}
		}
		if len(all) > 0 {
			next[id] = all
		}
	}
	c.changes.Store(&next)
}

// changeOf returns the difference of a tool from a version of it.
func changeOf(v *Version, t *Tool) string {
	text := []string{changedText + ":"}
	for _, part := range []struct{ name, before, after string }{
		{"description", v.Description, t.Description},
		{"arguments", pretty(v.Schema), pretty(t.Schema.JSON())},
		{"result", pretty(v.Output), pretty(t.Output.JSON())},
		{"title, icons, annotations and _meta", pretty(v.Extras), pretty(t.Extras.JSON())},
	} {
		if lines := changedLines(part.before, part.after); len(lines) > 0 {
			text = append(append(text, part.name+":"), lines...)
		}
	}
	size := 0
	for i, line := range text {
		if size += len(line) + 1; size > maxChange-len(moreChanges) {
			return strings.Join(append(text[:i:i], moreChanges), "\n")
		}
	}
	return strings.Join(text, "\n")
}

// changedLines returns the lines between the common beginning and the common end of two texts.
func changedLines(before, after string) (lines []string) {
	if before == after {
		return nil
	}
	a, b := strings.Split(before, "\n"), strings.Split(after, "\n")
	for len(a) > 0 && len(b) > 0 && a[0] == b[0] {
		a, b = a[1:], b[1:]
	}
	for len(a) > 0 && len(b) > 0 && a[len(a)-1] == b[len(b)-1] {
		a, b = a[:len(a)-1], b[:len(b)-1]
	}
	for _, of := range []struct {
		sign  string
		lines []string
	}{{"+ ", b}, {"- ", a}} { // what is new comes first, because the text is bounded
		for _, line := range of.lines {
			if line != "" {
				lines = append(lines, of.sign+shortLine(line))
			}
		}
	}
	return lines
}

// shortLine shortens a line of a change.
func shortLine(line string) string {
	if len(line) <= maxLineBytes {
		return line
	}
	return untrusted.Cut(line, maxLineBytes) + " " + moreChanges
}

// pretty formats JSON with a line for each value and sorted names.
func pretty(text []byte) string {
	if len(text) == 0 {
		return ""
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil {
		return string(text)
	}
	indented, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return string(text)
	}
	return string(indented)
}
