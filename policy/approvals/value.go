package approvals

import (
	"encoding/json"
	"strings"
	"unicode"

	"github.com/capgate/capgate/internal/toolschema"
)

// value formats arguments like preview, but as JSON for programs that show a table. A mask is a string. Characters that
// are invisible, and brackets of texts that look like a mask, are spelled out as in the preview: a decoded text has
// six visible characters in their place. It is "" if anything would be left out.
func (m *masker) value(value any, secrets *toolschema.Secrets, b bounds) string {
	p := &printer{masker: m, bounds: b, json: true, known: secrets != nil}
	p.value(value, secrets, "", showAll)
	p.end()
	text := strings.Join(p.lines, "\n")
	if p.full || !json.Valid([]byte(text)) {
		return ""
	}
	return text
}

// mask writes a mask.
func (p *printer) mask(text string) {
	if p.json {
		text = `"` + text + `"` // a mask has neither quotes nor backslashes
	}
	p.line.WriteString(text)
}

// jsonString writes s as a JSON string. Its decoded text is safe to show.
func (p *printer) jsonString(s string) {
	p.line.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			p.line.WriteByte('\\')
			p.line.WriteRune(r)
		case r == '\n':
			p.line.WriteString(`\n`)
		case r == '\t':
			p.line.WriteString(`\t`)
		case r == escapedBracket || !unicode.IsPrint(r):
			var spelled strings.Builder
			writeRune(&spelled, r)
			p.line.WriteString(strings.ReplaceAll(spelled.String(), `\`, `\\`))
		default:
			p.line.WriteRune(r)
		}
	}
	p.line.WriteByte('"')
}

// keys are the names of an object, as they are written.
type keys map[string]struct{}

// add reports whether the name is new: of two names that are cut alike, a reader would see one.
func (k keys) add(name string) bool {
	_, has := k[name]
	k[name] = struct{}{}
	return !has
}
