package strictproto

import (
	"errors"
	"fmt"
)

// The two kinds of errors. All that a Reader returns are made beforehand, and quote nothing of a message.
var (
	ErrMalformed = errors.New("it is not a well-formed protobuf message")
	ErrAmbiguous = errors.New("decoders of protobuf may read it differently")
)

// The errors that are about no field that is known.
var (
	errTag    = ambiguous("a field's tag is longer than it has to be")
	errLength = ambiguous("a field's length is written longer than it has to be")
	errNumber = ambiguous("a field's number is not one of 1 to 536870911")
	errGroup  = ambiguous("it has a group")
)

// ErrEntry refuses an entry of a map that has more than a key and then a value.
var ErrEntry = ambiguous("an entry of a map has more than one key and then one value")

// ErrKey refuses a map that has a key twice.
var ErrKey = ambiguous("a map has a key twice")

// ErrEntries refuses a map of which it is not found out whether it has a key twice.
var ErrEntries = ambiguous(fmt.Sprintf("a map has more than %d keys", MaxKeys))

func ambiguous(why string) error { return fmt.Errorf("%w: %s", ErrAmbiguous, why) }

// fault is what is wrong with a field that is known.
type fault int

const (
	wrongType fault = iota
	repeated
	notUTF8
	marked
	wrongNumber
	numFaults
)

var faults = func() (all [numFaults][maxField + 1]error) {
	for why, text := range [numFaults]string{
		wrongType:   "has another wire type than its own",
		repeated:    "is there twice",
		notUTF8:     "is not UTF-8",
		marked:      "begins with a byte order mark",
		wrongNumber: "has a number that is written longer than it has to be, or is too large",
	} {
		for field := range all[why] {
			all[why][field] = ambiguous(fmt.Sprintf("field %d %s", field, text))
		}
	}
	return all
}()
