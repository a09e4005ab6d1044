package difftest

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"unicode/utf16"
)

// arguments returns plain arguments, or ambiguous ones.
func (g *generator) arguments() []byte {
	bad := pick(g, `"command":"rm"`, `"command":"rm"`, `"attachments":[{"capability_artifact_id":"theirs"}]`)
	good := pick(g, `"command":"ls"`, `"attachments":[{"capability_artifact_id":"ours"}]`)
	switch n := g.IntN(100); {
	case n < 45:
		return []byte("{" + good + "}")
	case n < 50:
		return pick(g, nil, []byte(`{}`), []byte(`[]`), []byte(`null`), []byte(` {"command" : "ls"} `),
			[]byte(`{"command":"ls","text":"Grüße, 世界 🌍"}`))
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

// overHTTP returns a call of the JSON API.
func (g *generator) overHTTP(a *attempt) {
	a.json, a.named, a.header = true, false, []field{{"content-type", "application/json"}}
	base, tool := "/v1/capabilities/"+a.fleet, pick(g, "free", "run", "run", "blocked")
	if g.often(50) { // the arguments are the body
		a.parts = [][]byte{g.arguments()}
		at := g.IntN(len(tool))
		a.path = base + "/tools/" + pick(g, tool, tool, tool, tool[:at]+percent(tool[at])+tool[at+1:],
			strings.ToUpper(tool), tool+"%00", tool+"%20", "x%2f..%2f"+tool, tool+"/")
		a.path += pick(g, "", "", "?session_id=mine", "?session_id=other&session_id=mine",
			"?session_id=mine&session_id=other", "?session_id=%6dine", "?Session_Id=mine", "?session_id=mine;x=1")
		return
	}
	a.path = base + pick(g, "/invoke", "/invoke", "/stream")
	body := []string{`"tool_name":"` + tool + `"`}
	if args := g.arguments(); len(args) > 0 {
		body = append(body, `"args":`+string(args))
	}
	if config := g.configuration(); len(config) > 0 {
		body = append(body, `"config":`+string(config))
	}
	body = append(body, pick(g, `"session_id":"other"`, `"session_id":"mine"`, `"sessionId":"mine"`))
	if g.often(40) {
		body = append(body, pick(g, `"tool_name":"blocked"`, `"toolName":"blocked"`, `"Tool_Name":"blocked"`,
			`"tool_\u006eame":"blocked"`, `"session_id":"mine"`, `"sessionId":"mine"`,
			`"args":`+string(g.arguments()), `"args_json":"e30="`, `"Args":{"command":"rm"}`,
			`"config":{"secret":"x"}`, `"capability_id":"`+pick(g, g.fleets...)+`"`, `"capability_id":"`+a.fleet+`"`))
	}
	g.Shuffle(len(body), func(i, j int) { body[i], body[j] = body[j], body[i] })
	a.parts = [][]byte{[]byte("{" + strings.Join(body, ",") + "}")}
	if g.often(10) {
		a.parts = [][]byte{pick(g, encodings...)(string(a.parts[0]))}
	}
}

// oddJSON returns forbidden JSON in a form that only some decoders accept.
func (g *generator) oddJSON(good, bad string) []byte {
	name, value, _ := strings.Cut(bad, ":")
	name = strings.Trim(name, `"`)
	odd := pick(g,
		"{"+good+","+bad+"}", "{"+bad+","+good+"}", "{"+good+"}{"+bad+"}", "{"+bad+"}{"+good+"}",
		fmt.Sprintf(`{%q:%s}`, strings.ToUpper(name), value),
		fmt.Sprintf(`{%q:%s}`, strings.ToUpper(name[:1])+name[1:], value),
		"{"+good+fmt.Sprintf(`,%q:%s}`, strings.ToUpper(name), value),
		"{"+escaped(name)+":"+value+"}", "{"+good+","+escaped(name)+":"+value+"}",
		"{"+bad+",}", "{"+bad+"}//", "/**/{"+bad+"}", "{"+bad+"} x", "{"+bad+"}\x00", "\x00{"+bad+"}", "\v{"+bad+
			"}", "{'"+name+"':"+value+"}",
		`{"__proto__":{`+bad+"}}", `{"a":NaN,`+bad+"}", `{"a":1e999,`+bad+"}", `{"a":"`+"\x01"+`",`+bad+"}",
		`{"a":`+strings.Repeat("[", 200)+strings.Repeat("]", 200)+","+bad+"}", `{"`+name+"\xff"+`":1,`+bad+
			"}", `{"\ud800":1,`+bad+"}",
		strings.ReplaceAll("{"+bad+"}", "capability_artifact_id", escapedInside("capability_artifact_id")),
		strings.ReplaceAll("{"+bad+"}", "capability_artifact_id", "Capability_Artifact_ID"),
		strings.ReplaceAll("{"+bad+"}", "attachments", "attachment\u017f"),
		strings.ReplaceAll("{"+bad+"}", "theirs", escapedInside("theirs")),
		strings.ReplaceAll("{"+bad+"}", `"theirs"`, `"ours","capability_artifact_id":"theirs"`),
		"{"+bad+"}",
	)
	if g.often(35) {
		return pick(g, encodings...)(odd)
	}
	return []byte(odd)
}

// escaped returns a JSON string with all letters as escapes.
func escaped(s string) string { return `"` + escapedInside(s) + `"` }

func escapedInside(s string) string {
	var b strings.Builder
	for _, r := range s {
		fmt.Fprintf(&b, `\u%04x`, r)
	}
	return b.String()
}

// encodings are character encodings that some JSON decoders detect.
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
