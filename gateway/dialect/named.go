package dialect

import (
	"bytes"
	"slices"
	"strconv"
)

const (
	maxNamed = 8  // artifacts of one call's arguments that are looked for
	allNamed = 64 // that may be there where all of them count
)

// Named are the ids of the artifacts that arguments name, each once; nil, for the price
// of one search, if they name none.
func Named(args []byte) []string {
	if !bytes.Contains(args, idName) {
		return nil
	}
	ids, _ := named(args, maxNamed)
	return ids
}

// NamedAll is Named where none may be overlooked: neither one that is spelt otherwise, nor
// one too many. It is false if there are more than 64, or one whose id is too long.
func NamedAll(args []byte) (ids []string, all bool) {
	if bytes.Contains(args, escape) {
		args = plain(args)
	}
	if !bytes.Contains(args, idName) {
		return nil, true
	}
	return named(args, allNamed)
}

func named(args []byte, most int) (ids []string, all bool) {
	all = true
	ms := NewMentions(func(id string) {
		switch {
		case slices.Contains(ids, id):
		case len(ids) < most:
			ids = append(ids, id)
		default:
			all = false
		}
	})
	ms.most = len(args)
	ms.see(args, true)
	return ids, all && !ms.missed
}

// escape begins what JSON may write instead of a letter: four hexadecimal digits follow.
var escape = []byte(`\u00`)

// plain is JSON with the letters of idName in their own spelling, wherever they are.
func plain(json []byte) []byte {
	var out []byte // nil as long as there is nothing to change
	from := 0      // what follows is not in out
	for i := 0; i+1 < len(json); i++ {
		if json[i] != '\\' {
			continue
		}
		if bytes.HasPrefix(json[i:], escape) && len(json) >= i+6 {
			c, err := strconv.ParseUint(string(json[i+4:i+6]), 16, 8)
			if err == nil && (c == '_' || c >= 'a' && c <= 'z') {
				out = append(append(out, json[from:i]...), byte(c))
				from = i + 6
				i += 5
				continue
			}
		}
		i++ // the next byte belongs to this one
	}
	if out == nil {
		return json
	}
	return append(out, json[from:]...)
}
