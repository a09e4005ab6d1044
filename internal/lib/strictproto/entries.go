package strictproto

import "bytes"

// MaxKeys is how many keys a map has at most.
const MaxKeys = 128

// entry is the shape of an entry of a map from texts to texts.
var entry = Shape{1: String, 2: String}

// Entries are the keys of a map from texts to texts, as far as it was read.
type Entries struct {
	keys [MaxKeys][]byte
	n    int
}

// Read reads an entry. What is not there is empty: some encoders leave out what is. One has the key first, as all
// encoders write it: protobuf.js 6 takes what comes first for the key.
func (e *Entries) Read(msg []byte) (key, value []byte, err error) {
	r := Read(msg, &entry)
	for last := uint32(0); r.Next(); last = r.Number {
		switch {
		case r.Kind == Unknown || r.Number < last:
			return nil, nil, ErrEntry
		case r.Number == 1:
			key = r.Value
		default:
			value = r.Value
		}
	}
	if err := r.Err(); err != nil {
		return nil, nil, err
	}
	return key, value, e.add(key)
}

func (e *Entries) add(key []byte) error {
	for _, k := range e.keys[:e.n] {
		if bytes.Equal(k, key) {
			return ErrKey
		}
	}
	if e.n == MaxKeys {
		return ErrEntries
	}
	e.keys[e.n] = key
	e.n++
	return nil
}
