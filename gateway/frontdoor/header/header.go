// Package header has the table of the HTTP headers that the front doors know (table.go), and reads timeouts.
package header

// Door tells how the requests of a door use headers.
type Door struct {
	Request  []string // that pages of other sites may send, besides those of all doors
	Response []string // that such pages may read, besides those of all doors
	Cookies  bool     // browsers authenticate by cookies: pages of other sites may not call at all
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
