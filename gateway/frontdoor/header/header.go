// Package header defines the HTTP headers that the front doors use (table.go), and parses timeouts.
package header

// Door lists the headers of a door.
type Door struct {
	Request  []string // additional headers that pages of other sites may send
	Response []string // additional headers that such pages may read
	Cookies  bool     // browsers authenticate by cookies, so pages of other sites must not call at all
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
