package paging

import (
	"net/url"
	"strings"
)

// Name returns a resource name: collections and ids in turn. An id may be any text.
func Name(parts ...string) string {
	escaped := make([]string, len(parts))
	for i, part := range parts {
		escaped[i] = url.PathEscape(part)
	}
	return strings.Join(escaped, "/")
}
