package engine

import (
	"slices"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/capgate/capgate/internal/lib/strictproto"
)

// ModesHeader is the metadata key with the client's numbering of session modes, in the configuration's spelling.
// It overrides the fleet's setting.
const ModesHeader = "x-session-modes"

// mode is a session mode, independent of its number.
type mode uint8

const (
	unspecified mode = iota // the engine chooses
	normal
	otr // off the record
	heartbeat
	numModes
)

// numbers maps modes to numbers. BySeed has no number for unspecified: an unset mode is normal.
var numbers = map[Numbering][numModes]uint64{
	BySource: {unspecified: 0, normal: 1, otr: 2, heartbeat: 3},
	BySeed:   {unspecified: 0, normal: 0, otr: 1, heartbeat: 3},
}

// modeOf returns the mode with the number n in a numbering. It returns false if no mode has it.
func modeOf(n uint64, by Numbering) (mode, bool) {
	all := numbers[by]
	for m := heartbeat; ; m-- { // in this order, so that 0 is normal with BySeed
		if all[m] == n {
			return m, true
		}
		if m == unspecified {
			return 0, false
		}
	}
}

// renumber returns a message with its mode in another numbering; other fields are unchanged. It returns false for
// an invalid mode and for a malformed message.
func renumber(msg []byte, shape *strictproto.Shape, from, to Numbering) ([]byte, bool) {
	var was uint64
	var at, begins, ends int // offsets in msg: next field, mode field
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
