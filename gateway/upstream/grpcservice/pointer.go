package grpcservice

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/capgate/capgate/internal/lib/jsonpointer"
	"github.com/capgate/capgate/internal/lib/untrusted"
)

// pointerOf returns the JSON pointer to the value, or member, at which protojson has detected an error; empty means
// the error has no position.
func pointerOf(text []byte, err error) string {
	_, position, _ := strings.Cut(err.Error(), "(line ")
	var line, column int // in characters
	if n, _ := fmt.Sscanf(position, "%d:%d)", &line, &column); n < 2 {
		return ""
	}
	offset := 0
	for range line - 1 {
		offset += bytes.IndexByte(text[offset:], '\n') + 1
	}
	for ; column > 1 && offset < len(text); column-- {
		_, size := utf8.DecodeRune(text[offset:])
		offset += size
	}
	return pointerAt(text, int64(offset))
}

// level is an open object or array of a text.
type level struct {
	object bool
	name   string // member of an object
	named  bool   // its value follows
	index  int    // element of an array
}

// pointerAt returns the JSON pointer to the token at an offset.
func pointerAt(text []byte, offset int64) string {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var open []level
	for {
		token, err := d.Token()
		if err != nil {
			return ""
		}
		delim, _ := token.(json.Delim)
		if closing := delim == '}' || delim == ']'; closing {
			open = open[:len(open)-1]
		} else if n := len(open); n > 0 {
			top := &open[n-1]
			if name, is := token.(string); is && top.object && !top.named {
				top.name, top.named = name, true
			} else {
				top.named, top.index = false, top.index+1
			}
		}
		if d.InputOffset() > offset {
			return pointerTo(open)
		}
		if delim == '{' || delim == '[' {
			open = append(open, level{object: delim == '{', index: -1})
		}
	}
}

// pointerTo returns the pointer to the last member or element of open objects and arrays.
func pointerTo(open []level) string {
	var b strings.Builder
	for i := range open {
		if open[i].object {
			b.WriteString("/" + escape(open[i].name))
		} else {
			b.WriteString("/" + strconv.Itoa(open[i].index))
		}
	}
	return b.String()
}

// escape returns a name in the form of a JSON pointer (RFC 6901 §3), shortened if it is long.
func escape(name string) string {
	return jsonpointer.Escape(untrusted.Clip(name, 100))
}
