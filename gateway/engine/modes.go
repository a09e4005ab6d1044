package engine

import (
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/capgate/capgate/internal/call"
)

// ModesHeader is metadata in which a client says how it numbers the modes of sessions, as the configuration
// spells it, if otherwise than its fleet is configured to think.
const ModesHeader = "x-session-modes"

// mode is a mode of sessions, whatever its number.
type mode uint8

const (
	unspecified mode = iota // what the engine takes for it
	normal
	otr // off the record
	heartbeat
	numModes
)

// numbers are the modes' numbers. By the seed there is none for unspecified: a message that says nothing
// says normal.
var numbers = map[call.Numbering][numModes]uint64{
	call.BySource: {unspecified: 0, normal: 1, otr: 2, heartbeat: 3},
	call.BySeed:   {unspecified: 0, normal: 0, otr: 1, heartbeat: 3},
}

// modeOf is the mode of a number, if it is one.
func modeOf(n uint64, by call.Numbering) (mode, bool) {
	all := numbers[by]
	for m := heartbeat; ; m-- { // so that 0 by the seed is normal
		if all[m] == n {
			return m, true
		}
		if m == unspecified {
			return 0, false
		}
	}
}

// renumber is a message with the mode that is in one of its fields numbered in another way. It is false
// for a mode that is none, and for what is no message. Whatever else is in the message stays as it is.
func renumber(msg []byte, field protowire.Number, from, to call.Numbering) ([]byte, bool) {
	var was uint64
	ok := fields(msg, func(num protowire.Number, typ protowire.Type, v []byte) {
		if num == field && typ == protowire.VarintType {
			was = number(v)
		}
	})
	m, known := modeOf(was, from)
	if !ok || !known {
		return nil, false
	}
	is := numbers[to][m]
	if is == was {
		return msg, true
	}
	out := make([]byte, 0, len(msg)+2)
	for len(msg) > 0 {
		num, typ, n := protowire.ConsumeField(msg)
		if num != field || typ != protowire.VarintType {
			out = append(out, msg[:n]...)
		}
		msg = msg[n:]
	}
	if is != 0 {
		out = protowire.AppendVarint(protowire.AppendTag(out, field, protowire.VarintType), is)
	}
	return out, true
}
