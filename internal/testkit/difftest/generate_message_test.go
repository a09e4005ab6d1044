package difftest

import (
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
)

// message is the content of a request for a tool.
type message struct {
	legacy                            bool
	tool, session, capability, thread string
	args, config                      []byte
}

// parts returns its fields in the canonical encoding.
func (m *message) parts() (parts [][]byte) {
	add := func(number protowire.Number, value string) {
		if value != "" {
			parts = append(parts, text(number, value))
		}
	}
	add(1, m.tool)
	add(2, string(m.args))
	if !m.legacy {
		add(3, string(m.config))
		add(4, m.session)
		add(5, m.capability)
		add(6, m.thread)
		return parts
	}
	for _, e := range [][2]string{{"session_id", m.session}, {"capability_id", m.capability},
		{"thread_id", m.thread}, {"config_json", string(m.config)}} {
		if e[1] != "" {
			parts = append(parts, entry(e[0], e[1]))
		}
	}
	return parts
}

// spoilMessage makes a message ambiguous: some decoder reads another tool, session, artifact or configuration.
func (g *generator) spoilMessage(parts [][]byte, m *message) [][]byte {
	if m.legacy && g.often(40) {
		return append(parts, g.oddEntry())
	}
	switch g.IntN(8) {
	case 0:
		return g.twist(parts, 4, "mine")
	case 1:
		return g.twist(parts, 2, `{"attachments":[{"capability_artifact_id":"theirs"}]}`)
	case 2:
		return g.twist(parts, 3, `{"secret":"x"}`)
	case 3:
		return g.twist(parts, 5, pick(g, g.fleets...))
	case 4: // random bytes
		all := slices.Concat(parts...)
		for range 1 + g.IntN(3) {
			at := g.IntN(len(all) + 1)
			switch g.IntN(3) {
			case 0:
				all = slices.Insert(all, at, byte(g.IntN(256)))
			case 1:
				if at < len(all) {
					all = slices.Delete(all, at, at+1)
				}
			default:
				if at < len(all) {
					all[at] ^= 1 << g.IntN(8)
				}
			}
		}
		return [][]byte{all}
	case 5: // fields of future protos
		return slices.Insert(parts, g.IntN(len(parts)+1),
			pick(g, text(99, "new"), []byte{0x78, 1}, []byte{0x7d, 1, 2, 3, 4}, []byte{0x79, 1, 2, 3, 4, 5, 6, 7, 8}))
	}
	return g.twist(parts, 1, "blocked")
}

// twist repeats a field in a form on which decoders disagree.
func (g *generator) twist(parts [][]byte, number protowire.Number, value string) [][]byte {
	at := g.IntN(len(parts) + 1)
	part := pick(g, oddities...)(number, value)
	if g.often(10) { // as the only one
		parts = slices.DeleteFunc(slices.Clone(parts), func(p []byte) bool {
			n, _, _ := protowire.ConsumeTag(p)
			return n == number
		})
		at = g.IntN(len(parts) + 1)
	}
	return slices.Insert(slices.Clone(parts), at, part)
}

// oddities encode a field in forms that some decoders accept, and others skip or reject.
var oddities = []func(number protowire.Number, value string) []byte{
	text, // once more
	hidden,
	func(n protowire.Number, v string) []byte { return tagged(longer(uint64(n)<<3|2, 1), v) },
	func(n protowire.Number, v string) []byte { return tagged(longer(uint64(n)<<3|2, 4), v) },
	func(n protowire.Number, v string) []byte { return tagged(longer(uint64(n)<<3|2, 9), v) },
	func(n protowire.Number, v string) []byte { return tagged(varint(uint64(n)<<3|2|1<<32), v) },
	func(n protowire.Number, v string) []byte { return tagged(varint(uint64(n)<<3|2|1<<35), v) },
	func(n protowire.Number, v string) []byte { return tagged(varint(uint64(n)<<3|2|1<<63), v) },
	func(n protowire.Number, v string) []byte {
		return tagged([]byte{byte(n)<<3 | 2 | 0x80, 0x80, 0x80, 0x80, 0x70}, v)
	},
	func(n protowire.Number, v string) []byte {
		return append(varint(uint64(n)<<3|2), append(longer(uint64(len(v)), 1), v...)...)
	},
	func(n protowire.Number, v string) []byte {
		return append(varint(uint64(n)<<3|2), append(longer(uint64(len(v)), 4), v...)...)
	},
	func(n protowire.Number, v string) []byte {
		return append(varint(uint64(n)<<3|2), append(varint(uint64(len(v))|1<<32), v...)...)
	},
	func(n protowire.Number, v string) []byte {
		return append(varint(uint64(n)<<3|2), append(longer(uint64(len(v)), 9), v...)...)
	},
	func(n protowire.Number, v string) []byte {
		return slices.Concat(varint(uint64(n)<<3|3), text(n, v), varint(uint64(n)<<3|4))
	},
	func(n protowire.Number, v string) []byte {
		return slices.Concat([]byte{15<<3 | 3}, text(n, v), []byte{15<<3 | 4})
	},
	func(n protowire.Number, v string) []byte { return slices.Concat(varint(uint64(n)<<3|4), text(n, v)) },
	func(n protowire.Number, v string) []byte { return slices.Concat([]byte{15<<3 | 3}, text(n, v)) },
	func(n protowire.Number, v string) []byte { return append(varint(uint64(n)<<3|6), text(n, v)[1:]...) },
	func(n protowire.Number, v string) []byte { return append(varint(uint64(n)<<3|7), text(n, v)[1:]...) },
	func(n protowire.Number, v string) []byte { return append(varint(uint64(n)<<3|5), text(n, v)...) },
	func(n protowire.Number, v string) []byte { return append(varint(uint64(n)<<3|1), text(n, v)...) },
	func(n protowire.Number, v string) []byte { return append(varint(uint64(n)<<3), text(n, v)...) },
	func(n protowire.Number, v string) []byte { return append([]byte{2}, text(n, v)[1:]...) }, // field 0
	func(n protowire.Number, v string) []byte { return append([]byte{0}, text(n, v)...) },
	func(n protowire.Number, v string) []byte { return text(n, v+"\xff") },
	func(n protowire.Number, v string) []byte { return text(n, "\xef\xbb\xbf"+v) },
	func(n protowire.Number, v string) []byte { return text(n, v+"\xed\xa0\x80") },
	func(n protowire.Number, v string) []byte { return text(n, v+"\x00") },
	func(n protowire.Number, v string) []byte { return text(n, v)[:len(v)] }, // cut off
	func(n protowire.Number, _ string) []byte { return text(n, "") },
}

func varint(v uint64) []byte { return protowire.AppendVarint(nil, v) }

// longer returns a varint with superfluous bytes, at most ten in all.
func longer(v uint64, more int) []byte {
	b := varint(v)
	for more > 0 && len(b) < 10 {
		b[len(b)-1] |= 0x80
		b = append(b, 0)
		more--
	}
	return b
}

// tagged returns a value after a verbatim tag.
func tagged(tag []byte, value string) []byte {
	return slices.Concat(tag, varint(uint64(len(value))), []byte(value))
}

// hidden returns a varint for decoders that heed wire types, followed by an unknown field with the value. Others,
// such as protobuf.js 7, read the varint as the length of the value.
func hidden(number protowire.Number, value string) []byte {
	b := append(varint(uint64(number)<<3), varint(uint64(len(value)))...)
	if len(value) < 2 {
		return b
	}
	rest := []byte(value)
	switch rest[0] & 7 {
	case 2: // its first byte is a tag, and its second a length that reaches beyond it
		b = append(b, value...)
		if need := int(rest[1]) - (len(rest) - 2); rest[1] < 0x80 && need >= 2 && need < 120 {
			return append(b, append([]byte{0x7a, byte(need - 2)}, make([]byte, need-2)...)...)
		}
	case 5: // the tag of four bytes
		if len(value) == 4 { // and a fifth, from which on the two go apart for a while
			return slices.Concat(b, rest, []byte{0x7a, 0x7a, 121}, make([]byte, 121))
		}
	}
	return append(b, value...)
}

// oddEntry returns an entry of a legacy context on which decoders disagree.
func (g *generator) oddEntry() []byte {
	key, value := "session_id", "mine"
	if g.often(40) {
		key, value = "config_json", `{"secret":"x"}`
	}
	inner := pick(g,
		slices.Concat(text(1, key), text(2, value), text(3, "new")),
		slices.Concat(text(1, key), text(2, value), []byte{0x18, 1}),
		slices.Concat(text(1, key), text(2, "other"), text(2, value)),
		slices.Concat(text(1, "other"), text(1, key), text(2, value)),
		slices.Concat(text(2, value), text(1, key)),
		text(1, key), text(2, value), nil,
		slices.Concat(text(1, key), hidden(2, value)),
		slices.Concat(hidden(1, key), text(2, value)),
		slices.Concat(text(1, key), pick(g, oddities...)(2, value)),
		slices.Concat(pick(g, oddities...)(1, key), text(2, value)),
		slices.Concat(text(1, key), text(2, value)),
		slices.Concat(text(1, key), text(2, value), []byte{0xff}),
	)
	if g.often(20) {
		return pick(g, oddities...)(3, string(inner))
	}
	return text(3, string(inner))
}
