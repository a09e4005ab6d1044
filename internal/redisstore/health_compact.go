package redisstore

import (
	"errors"
	"strconv"
	"strings"

	"github.com/capgate/capgate/internal/lib/untrusted"
)

// A compact event has the time of its publication at the end of its first line, and a line for each change:
//
//	capability addr by written age episode kind
//
// capability, addr and by leave out the bytes at their beginning and end that they share with those of the line before.
// Two bytes before the rest say how many: '0' plus the one number, and '0' plus the other. written is the time from
// then until the publication, age that from the start of the state to then, both in ms. episode is hexadecimal. kind is
// a number. The first line with it has its text as well, "slot state refused dialect reason"; the kinds of an event are
// numbered from 1 in that order. lua/include/health_compact.lua writes all that.

const (
	maxChanges = 1024 // in a compact event; the script writes at most 128
	maxShared  = 64   // bytes of each end of a word
)

// expandChanges returns the fields and observations of a compact event, as the lines of a plain one.
func expandChanges(compact []string, published string) ([]string, bool) {
	now, err := strconv.ParseUint(published, 10, 62)
	if err != nil || len(compact) > maxChanges {
		return nil, false
	}
	var words [3]string // capability, addr and by of the line before
	var kinds [][]string
	lines := make([]string, 0, 2*len(compact))
	for _, line := range compact {
		f := strings.SplitN(line, " ", 8)
		if len(f) < 7 {
			return nil, false
		}
		for i := range words {
			var ok bool
			if words[i], ok = expandWord(f[i], words[i]); !ok {
				return nil, false
			}
		}
		if len(f) == 8 {
			kind, ok := splitKind(f[7])
			if !ok {
				return nil, false
			}
			kinds = append(kinds, kind)
		}
		wait, err1 := strconv.ParseInt(f[3], 10, 62)
		age, err2 := strconv.ParseInt(f[4], 10, 62)
		episode, err3 := strconv.ParseUint(f[5], 16, 32)
		number, err4 := strconv.ParseUint(f[6], 10, 16)
		at := int(number) - 1
		if errors.Join(err1, err2, err3, err4) != nil || at < 0 || at >= len(kinds) ||
			len(f) == 8 && at != len(kinds)-1 {
			return nil, false
		}
		kind, written := kinds[at], int64(now)-wait
		lines = append(lines, words[0]+" "+words[1]+" "+kind[0], strings.Join([]string{
			strconv.FormatInt(written-age, 10), strconv.FormatInt(written, 10), kind[1], kind[2], kind[3],
			strconv.FormatUint(episode, 10), words[2], kind[4],
		}, " "))
	}
	return lines, true
}

// splitKind returns the slot, state, refused, dialect and reason of a kind: four digits and a text.
func splitKind(text string) ([]string, bool) {
	kind := strings.SplitN(text, " ", 5)
	if len(kind) != 5 || len(kind[0]+kind[1]+kind[2]+kind[3]) != 4 {
		return nil, false
	}
	kind[4] = untrusted.Cut(kind[4], maxText)
	return kind, true
}

// expandWord returns the word of which s is left beside other.
func expandWord(s, other string) (string, bool) {
	if len(s) < 2 {
		return "", false
	}
	first, last := int(s[0])-'0', int(s[1])-'0'
	if first < 0 || last < 0 || first > maxShared || last > maxShared || first+last > len(other) {
		return "", false
	}
	return other[:first] + s[2:] + other[len(other)-last:], true
}
