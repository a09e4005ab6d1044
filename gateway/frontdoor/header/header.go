// Package header defines the HTTP headers that the front doors use (table.go), and parses timeouts.
package header

import "net/http"

// Door lists the headers of a door.
type Door struct {
	Request  []string // additional headers that pages of other sites may send
	Response []string // additional headers that such pages may read
	Cookies  bool     // browsers authenticate by cookies, so pages of other sites must not call at all
}

// First returns the first value of a header; empty means none. name must be canonical, which net/http would ensure at
// a cost.
func First(h http.Header, name string) string {
	if values := h[name]; len(values) > 0 {
		return values[0]
	}
	return ""
}

// IsASCII reports whether v may be the value of metadata (gRPC over HTTP/2, "ASCII-Value").
func IsASCII(v string) bool {
	for i := range len(v) {
		if v[i] < 0x20 || v[i] > 0x7e {
			return false
		}
	}
	return true
}
