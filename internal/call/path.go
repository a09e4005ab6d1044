package call

import "strings"

// WithoutQuery is a path as it may be shown. gRPC has no queries, but who sends one may have
// put a secret into it.
func WithoutQuery(path string) string {
	path, _, _ = strings.Cut(path, "?")
	return path
}
