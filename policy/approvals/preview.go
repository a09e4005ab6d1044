package approvals

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/capgate/capgate/internal/lib/untrusted"
	"github.com/capgate/capgate/internal/toolschema"
)

// Bounds of the approver's view.
const (
	maxPreview = 8 << 10 // bytes of a preview, without the line that marks a truncation
	maxString  = 512     // bytes of one string
	maxText    = 4 << 10 // bytes of a description and a reason
	maxName    = 1 << 10 // bytes of a comment, a name, and the approver
	maxDepth   = 3       // levels of JSON in strings that are parsed

	moreText = "… (there is more)" // the last line of an excerpt
)

// bounds are those of a view; 0: none.
type bounds struct {
	all    int // bytes, without the line that marks a truncation
	string int // bytes of one string
}

// excerpt bounds the view of an approval in lists, events and notices. The view of a single approval has no bounds.
func excerpt() bounds { return bounds{all: maxPreview, string: maxString} }

// preview formats arguments for a person, with secrets masked. It escapes characters that are invisible or
// change how the rest reads. It reports whether everything is in the text.
//
// secrets holds the secrets that the tool's schema declares; nil: unknown.
func (m *masker) preview(value any, secrets *toolschema.Secrets, b bounds) (text string, whole bool) {
	p := &printer{masker: m, bounds: b, known: secrets != nil}
	p.value(value, secrets, "", showAll)
	p.end()
	return strings.Join(p.lines, "\n"), !p.full && !p.cut
}

// printer collects lines up to the maximum size.
type printer struct {
	*masker
	bounds
	lines []string
	line  strings.Builder
	size  int
	full  bool // nothing further is written
	cut   bool // a string is shortened
	depth int  // of JSON inside strings
	json  bool // what it writes is JSON, see masker.value
	known bool // the schema says what is secret, and names do not
}

// end ends a line, if there is room.
func (p *printer) end() {
	if p.full {
		return
	}
	if p.all > 0 && p.size+p.line.Len()+1 > p.all {
		p.full = true
		p.lines = append(p.lines, moreText)
		return
	}
	p.size += p.line.Len() + 1
	p.lines = append(p.lines, p.line.String())
	p.line.Reset()
}

// visibility says which part of a value is shown.
type visibility uint8

const (
	showAll             visibility = iota
	maskLikelySecrets              // the value follows the name of a secret: likely secrets are masked
	maskPossibleSecrets            // the value is paired with such a name: possible secrets are masked
	maskNamed                      // the value has the name of a secret: words are masked, and no command
	maskSecret                     // the schema says that the value is a secret
)

func (p *printer) value(value any, secrets *toolschema.Secrets, indent string, show visibility) {
	if secrets.Secret() {
		show = maskSecret
	}
	switch v := value.(type) {
	case map[string]any:
		p.object(v, secrets, indent, show)
	case []any:
		p.array(v, secrets, indent, show)
	case string:
		switch {
		case show == maskSecret && v != "":
			p.mask(maskOf(v, "by the tool's schema"))
		case show == maskNamed && secretPhrase(v):
			p.mask(maskOf(v, "by its name"))
		case show == maskPossibleSecrets && secretPhrase(v), show == maskLikelySecrets && looksRandom(v):
			p.mask(maskOf(v, "by the name beside it"))
		default:
			p.string(v)
		}
	case json.Number:
		if show != showAll {
			p.mask(maskOf(string(v), map[bool]string{true: "by the tool's schema, a number",
				false: "by a name, a number"}[show == maskSecret]))
			return
		}
		p.cut = p.cut || p.shortens(len(v))
		p.full = p.full || p.json && p.shortens(len(v))
		p.line.WriteString(p.clip(string(v)))
	default: // a boolean or null reveals nothing of a secret but its existence
		fmt.Fprint(&p.line, literal(v))
	}
}

func literal(v any) string {
	if v == nil {
		return "null"
	}
	return fmt.Sprint(v)
}

func (p *printer) object(o map[string]any, secrets *toolschema.Secrets, indent string, show visibility) {
	if len(o) == 0 {
		p.line.WriteString("{}")
		return
	}
	pair := p.pair(o)
	p.line.WriteString("{")
	p.end()
	names := keys{}
	for i, name := range sortedNames(o) {
		if p.full {
			return
		}
		p.line.WriteString(indent + "  ")
		from := p.line.Len()
		p.string(name)
		p.full = p.full || p.json && !names.add(p.line.String()[from:])
		p.line.WriteString(": ")
		of := show
		switch {
		case p.known:
		case p.secret(name):
			of = max(show, maskNamed)
		case pair != "" && name == pair:
			of = max(show, maskPossibleSecrets)
		}
		p.value(o[name], secrets.Member(name), indent+"  ", of)
		if i < len(o)-1 {
			p.line.WriteString(",")
		}
		p.end()
	}
	p.line.WriteString(indent + "}")
}

func (p *printer) array(a []any, secrets *toolschema.Secrets, indent string, show visibility) {
	if len(a) == 0 {
		p.line.WriteString("[]")
		return
	}
	p.line.WriteString("[")
	p.end()
	for i, v := range a {
		if p.full {
			return
		}
		p.line.WriteString(indent + "  ")
		of := show
		if i > 0 && !p.known && p.namesSecret(a[i-1]) {
			of = max(show, maskLikelySecrets)
		}
		p.value(v, secrets.Item(i), indent+"  ", of)
		if i < len(a)-1 {
			p.line.WriteString(",")
		}
		p.end()
	}
	p.line.WriteString(indent + "]")
}

// string writes a string with its secrets masked, also those in embedded JSON.
func (p *printer) string(s string) {
	var text string
	var whole bool
	if inner, ok := embeddedJSON(s); ok && p.depth < maxDepth {
		deeper := &printer{masker: p.masker, bounds: p.bounds, depth: p.depth + 1, known: p.known}
		deeper.value(inner, nil, "", showAll)
		deeper.end()
		text, whole = strings.Join(deeper.lines, "\n"), !deeper.full && !deeper.cut
	} else {
		seen := p.window(s)
		text, whole = p.maskText(escapeMasks(seen), p.known), len(seen) == len(s)
	}
	shown := p.clip(text)
	whole = whole && len(shown) == len(text)
	p.cut = p.cut || !whole
	if p.json {
		if !whole {
			shown += fmt.Sprintf(" … (%d bytes in all)", len(s))
		}
		p.jsonString(shown)
		return
	}
	p.line.WriteByte('"')
	for _, r := range shown {
		writeRune(&p.line, r)
	}
	p.line.WriteByte('"')
	if !whole {
		fmt.Fprintf(&p.line, " … (%d bytes in all)", len(s))
	}
}

// shortens reports whether a string of n bytes is too long.
func (b bounds) shortens(n int) bool { return b.string > 0 && n > b.string }

// clip shortens a string.
func (b bounds) clip(s string) string {
	if !b.shortens(len(s)) {
		return s
	}
	return untrusted.Truncate(s, b.string)
}

// window returns the part of a text that is searched: whole words, so that no secret is cut in two and
// missed.
func (b bounds) window(s string) string {
	most := 8 * b.string
	if most == 0 || len(s) <= most {
		return s
	}
	s = untrusted.Truncate(s, most)
	if end := strings.LastIndexFunc(s, unicode.IsSpace); end >= 0 {
		return s[:end]
	}
	return s
}

func writeRune(b *strings.Builder, r rune) {
	switch {
	case r == escapedBracket:
		b.WriteString(`\u005b`)
	case r == '"' || r == '\\':
		b.WriteByte('\\')
		b.WriteRune(r)
	case r == '\n':
		b.WriteString(`\n`)
	case r == '\t':
		b.WriteString(`\t`)
	case unicode.IsPrint(r):
		b.WriteRune(r)
	case r > 0xffff:
		r1, r2 := utf16.EncodeRune(r)
		fmt.Fprintf(b, `\u%04x\u%04x`, r1, r2)
	default:
		fmt.Fprintf(b, `\u%04x`, r)
	}
}

// readable makes a foreign text safe to show: truncated, and without unprintable characters.
func readable(s string, most int) string {
	s = strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || unicode.IsPrint(r) {
			return r
		}
		return utf8.RuneError
	}, untrusted.Cut(s, most))
	return untrusted.Truncate(s, most) // U+FFFD may have more bytes than what it replaces
}
