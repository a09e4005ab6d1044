package strictproto

import (
	"errors"
	"fmt"
)

// The two kinds of errors. All errors of a Reader are allocated in advance, and quote nothing of a message.
var (
	ErrMalformed = errors.New("it is not a well-formed protobuf message")
	ErrAmbiguous = errors.New("decoders of protobuf may read it differently")
)

// Errors that are not about a known field.
var (
	errTag    = ambiguous("a field's tag is longer than necessary")
	errLength = ambiguous("the encoding of a field's length is longer than necessary")
	errNumber = ambiguous("a field's number is not one of 1 to 536870911")
	errGroup  = ambiguous("it has a group")
)

// ErrEntry rejects an entry of a map that has more than a key and then a value.
var ErrEntry = ambiguous("an entry of a map has more than one key and then one value")

// ErrKey rejects a map with a duplicate key.
var ErrKey = ambiguous("a map has a key twice")

// ErrEntries rejects a map with too many keys to check for duplicates.
var ErrEntries = ambiguous(fmt.Sprintf("a map has more than %d keys", MaxKeys))

func ambiguous(why string) error { return fmt.Errorf("%w: %s", ErrAmbiguous, why) }

// fault is an error of a known field.
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
		wrongType:   "has the wrong wire type",
		repeated:    "is there twice",
		notUTF8:     "is not UTF-8",
		marked:      "begins with a byte order mark",
		wrongNumber: "has a number that is encoded longer than necessary, or is too large",
	} {
		for field := range all[why] {
			all[why][field] = ambiguous(fmt.Sprintf("field %d %s", field, text))
		}
	}
	return all
}()
