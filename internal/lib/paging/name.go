package paging

import (
	"net/url"
	"strings"
)

// Name is a resource name: collections and ids in turn, of which ids may be any text.
func Name(parts ...string) string {
	escaped := make([]string, len(parts))
	for i, part := range parts {
		escaped[i] = url.PathEscape(part)
	}
	return strings.Join(escaped, "/")
}
