package call

import "strings"

// WithoutQuery is a path as it may be shown. gRPC has no queries, but who sends one may have
// put a secret into it.
func WithoutQuery(path string) string {
	path, _, _ = strings.Cut(path, "?")
	return path
}

// SplitPath is the service and the method of a gRPC path, /package.Service/Method. It is false for any other: servers
// decode, clean or fold paths that have more than letters, digits and underscores, and each in its own way.
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

// IsService says whether s is the full name of a protobuf service.
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
