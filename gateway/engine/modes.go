package engine

import (
	"slices"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/capgate/capgate/internal/lib/strictproto"
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
var numbers = map[Numbering][numModes]uint64{
	BySource: {unspecified: 0, normal: 1, otr: 2, heartbeat: 3},
	BySeed:   {unspecified: 0, normal: 0, otr: 1, heartbeat: 3},
}

// modeOf is the mode of a number, if it is one.
func modeOf(n uint64, by Numbering) (mode, bool) {
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

// renumber is a message with its mode numbered in another way. It is false for a mode that is none, and for what
// is not to be read. Whatever else is in the message stays as it is.
func renumber(msg []byte, shape *strictproto.Shape, from, to Numbering) ([]byte, bool) {
	var was uint64
	var at, begins, ends int // in msg: the next field, and the mode
	r := strictproto.Read(msg, shape)
	for r.Next() {
		if r.Number == fieldMode {
			was, begins, ends = r.Varint, at, at+len(r.Field)
		}
		at += len(r.Field)
	}
	if r.Err() != nil {
		return nil, false
	}
	m, known := modeOf(was, from)
	if !known {
		return nil, false
	}
	is := numbers[to][m]
	if is == was {
		return msg, true
	}
	others := slices.Concat(msg[:begins], msg[ends:])
	if is == 0 {
		return others, true
	}
	return protowire.AppendVarint(protowire.AppendTag(others, fieldMode, protowire.VarintType), is), true
}
