package call

import "strings"

// WithoutQuery returns a path without its query. gRPC has no queries, but a client may have sent a secret in
// one.
func WithoutQuery(path string) string {
	path, _, _ = strings.Cut(path, "?")
	return path
}

// SplitPath returns the service and the method of a gRPC path, /package.Service/Method. It returns false for
// any other path: servers differ in the way they decode, clean or fold paths with other characters than
// letters, digits and underscores.
func SplitPath(path string) (service, method string, ok bool) {
	if !strings.HasPrefix(path, "/") {
		return "", "", false
	}
	service, method, _ = strings.Cut(path[1:], "/")
	if !IsService(service) || !isIdentifier(method) {
		return "", "", false
	}
	return service, method, true
}

// IsService reports whether s is the full name of a protobuf service.
func IsService(s string) bool {
	for part := range strings.SplitSeq(s, ".") {
		if !isIdentifier(part) {
			return false
		}
	}
	return true
}

func isIdentifier(s string) bool {
	for i := range len(s) {
		c := s[i]
		letter := c == '_' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return s != ""
}
