package difftest

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"unicode/utf16"
)

// arguments are plain, or say something else to some decoder.
func (g *generator) arguments() []byte {
	bad := pick(g, `"command":"rm"`, `"command":"rm"`, `"attachments":[{"capability_artifact_id":"theirs"}]`)
	good := pick(g, `"command":"ls"`, `"attachments":[{"capability_artifact_id":"ours"}]`)
	switch n := g.IntN(100); {
	case n < 45:
		return []byte("{" + good + "}")
	case n < 50:
		return pick(g, nil, []byte(`{}`), []byte(`[]`), []byte(`null`), []byte(` {"command" : "ls"} `), []byte(`{"command":"ls","text":"Grüße, 世界 🌍"}`))
	case n < 55:
		return []byte("{" + bad + "}")
	}
	return g.oddJSON(good, bad)
}

func (g *generator) configuration() []byte {
	const bad, good = `"secret":"x"`, `"api_key":"x"`
	switch n := g.IntN(100); {
	case n < 40:
		return nil
	case n < 85:
		return []byte("{" + good + "}")
	}
	return g.oddJSON(good, bad)
}

// oddJSON says what is bad in a way that some decoders read, and others do not.
func (g *generator) oddJSON(good, bad string) []byte {
	name, value, _ := strings.Cut(bad, ":")
	name = strings.Trim(name, `"`)
	odd := pick(g,
		"{"+good+","+bad+"}", "{"+bad+","+good+"}", "{"+good+"}{"+bad+"}", "{"+bad+"}{"+good+"}",
		fmt.Sprintf(`{%q:%s}`, strings.ToUpper(name), value), fmt.Sprintf(`{%q:%s}`, strings.ToUpper(name[:1])+name[1:], value),
		"{"+good+fmt.Sprintf(`,%q:%s}`, strings.ToUpper(name), value),
		"{"+escaped(name)+":"+value+"}", "{"+good+","+escaped(name)+":"+value+"}",
		"{"+bad+",}", "{"+bad+"}//", "/**/{"+bad+"}", "{"+bad+"} x", "{"+bad+"}\x00", "\x00{"+bad+"}", "\v{"+bad+"}", "{'"+name+"':"+value+"}",
		`{"__proto__":{`+bad+"}}", `{"a":NaN,`+bad+"}", `{"a":1e999,`+bad+"}", `{"a":"`+"\x01"+`",`+bad+"}",
		`{"a":`+strings.Repeat("[", 200)+strings.Repeat("]", 200)+","+bad+"}", `{"`+name+"\xff"+`":1,`+bad+"}", `{"\ud800":1,`+bad+"}",
		strings.ReplaceAll("{"+bad+"}", "capability_artifact_id", escapedInside("capability_artifact_id")),
		strings.ReplaceAll("{"+bad+"}", "capability_artifact_id", "Capability_Artifact_ID"),
		strings.ReplaceAll("{"+bad+"}", "attachments", "attachment\u017f"), strings.ReplaceAll("{"+bad+"}", "theirs", escapedInside("theirs")),
		strings.ReplaceAll("{"+bad+"}", `"theirs"`, `"ours","capability_artifact_id":"theirs"`),
		"{"+bad+"}",
	)
	if g.often(35) {
		return pick(g, encodings...)(odd)
	}
	return []byte(odd)
}

// escaped is a JSON string with all its letters as numbers.
func escaped(s string) string { return `"` + escapedInside(s) + `"` }

func escapedInside(s string) string {
	var b strings.Builder
	for _, r := range s {
		fmt.Fprintf(&b, `\u%04x`, r)
	}
	return b.String()
}

// encodings are those that some decoders of JSON find out by themselves.
var encodings = []func(string) []byte{
	func(s string) []byte { return append([]byte("\xef\xbb\xbf"), s...) },
	func(s string) []byte { return encoded16(binary.LittleEndian, s) },
	func(s string) []byte { return encoded16(binary.BigEndian, s) },
	func(s string) []byte { return encoded16(binary.LittleEndian, "\ufeff"+s) },
	func(s string) []byte { return encoded16(binary.BigEndian, "\ufeff"+s) },
	func(s string) []byte { return encoded32(binary.LittleEndian, s) },
	func(s string) []byte { return encoded32(binary.BigEndian, "\ufeff"+s) },
	func(s string) []byte { return slices.Concat([]byte("\xff\xfe"), []byte(s)) },
}

func encoded16(order binary.AppendByteOrder, s string) (b []byte) {
	for _, unit := range utf16.Encode([]rune(s)) {
		b = order.AppendUint16(b, unit)
	}
	return b
}

func encoded32(order binary.AppendByteOrder, s string) (b []byte) {
	for _, r := range s {
		b = order.AppendUint32(b, uint32(r))
	}
	return b
}
