package http1

import (
	"net/http"
	"strconv"
	"strings"
)

// fields parses lines of a name, a colon without a space before it, and a value of visible characters and spaces.
func (h *head) fields(text string) bool {
	lines := strings.Count(text, "\n")
	h.header = make(http.Header, lines+1) // a handler may add an id
	values := make([]string, lines)
	for i := range values {
		line, rest, _ := strings.Cut(text, "\r\n")
		text = rest
		name, value, ok := field(line)
		if !ok || !h.own(name, value) {
			return false
		}
		if before := h.header[name]; before != nil {
			h.header[name] = append(before, value)
			continue
		}
		if name != "Host" {
			values[i] = value
			h.header[name] = values[i : i+1 : i+1]
		}
	}
	return text == "" && h.host != ""
}

// field splits a line. The name is in the form of http.Header.
func field(line string) (name, value string, ok bool) {
	canonical, upper, colon := true, true, 0
	for ; colon < len(line) && line[colon] != ':'; colon++ {
		switch k := kinds[line[colon]]; {
		case k&token == 0:
			return "", "", false
		case upper && k&lowerCase != 0 || !upper && k&upperCase != 0:
			canonical = false
		}
		upper = line[colon] == '-'
	}
	if colon == 0 || colon == len(line) {
		return "", "", false
	}
	name, value = line[:colon], line[colon+1:]
	for len(value) > 0 && value[0] == ' ' {
		value = value[1:]
	}
	for i := range len(value) {
		if kinds[value[i]]&visible == 0 && value[i] != ' ' {
			return "", "", false
		}
	}
	if !canonical {
		name = http.CanonicalHeaderKey(name)
	}
	return name, value, !strings.HasSuffix(value, " ")
}

// own processes a field that concerns the server. It reports whether the request is in the subset.
func (h *head) own(name, value string) bool {
	switch name {
	case "Host":
		twice := h.host != ""
		h.host = value
		return !twice && isHost(value)
	case "Content-Length":
		n, err := strconv.ParseUint(value, 10, 32)
		h.length = int(n)
		return err == nil && n <= maxBody && h.header[name] == nil
	case "Connection":
		return strings.EqualFold(value, "keep-alive")
	case "Expect", "Pragma", "Trailer", "Transfer-Encoding", "Upgrade":
		return false
	}
	return true
}

// isHost reports whether a text has only characters of names, addresses and ports.
func isHost(text string) bool {
	for i := range len(text) {
		if kinds[text[i]]&plain == 0 && strings.IndexByte("[:]", text[i]) < 0 || text[i] == '/' {
			return false
		}
	}
	return text != ""
}

// The kinds of characters.
const (
	token   = 1 << iota // of names (RFC 9110 §5.6.2)
	visible             // ASCII without spaces
	plain               // of paths that all URL parsers treat alike
	lowerCase
	upperCase
)

var kinds = func() (t [256]byte) {
	for c := '!'; c <= '~'; c++ {
		t[c] |= visible
	}
	letters := "abcdefghijklmnopqrstuvwxyz"
	set := func(kind byte, text string) {
		for i := range len(text) {
			t[text[i]] |= kind
		}
	}
	set(lowerCase, letters)
	set(upperCase, strings.ToUpper(letters))
	for c := range t {
		if t[c]&(lowerCase|upperCase) != 0 {
			t[c] |= token | plain
		}
	}
	set(token|plain, "0123456789-_.~")
	set(plain, "/")
	set(token, "!#$%&'*+^`|")
	return t
}()
