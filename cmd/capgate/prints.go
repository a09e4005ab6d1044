package main

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"os"
)

// prints are what some files held, by their names: a hash of the bytes, or the zero
// print of a file that cannot be read. Names and times would not tell as well: in a
// ConfigMap all names are links that lead elsewhere after a change.
type prints map[string][sha256.Size]byte

// read reads a file and keeps its print.
func (p prints) read(name string) ([]byte, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		p[name] = [sha256.Size]byte{}
		var path *os.PathError
		if errors.As(err, &path) {
			err = path.Err
		}
		return nil, fmt.Errorf("%s: cannot be read: %w", name, err)
	}
	p[name] = sha256.Sum256(data)
	return data, nil
}

// again are the prints of the same files now.
func (p prints) again() prints {
	now := prints{}
	for name := range p {
		_, _ = now.read(name)
	}
	return now
}

func (p prints) equal(other prints) bool { return maps.Equal(p, other) }

// agree says whether some files held the same in both; "" is no file.
func (p prints) agree(other prints, names ...string) bool {
	for _, name := range names {
		if name != "" && p[name] != other[name] {
			return false
		}
	}
	return true
}
