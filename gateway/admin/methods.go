package admin

import (
	"net/http"
	"slices"
	"strings"
)

// jsonRoute is a JSON route of a service.
type jsonRoute struct {
	verb     string
	segments []string // of its path, as in google.api.http
	streams  bool     // has no HEAD
}

// match reports whether the route accepts a path, and the number of its fixed segments.
func (r *jsonRoute) match(path []string) (fixed int, matches bool) {
	if len(path) != len(r.segments) {
		return 0, false
	}
	for i, segment := range r.segments {
		end := strings.LastIndexByte(segment, '}') + 1
		switch {
		case end == 0 && segment != path[i], path[i] == "":
			if i > 0 || segment != path[i] { // a path starts with a slash
				return 0, false
			}
		case end == 0:
			fixed++
		case end < len(segment): // a custom method
			if name, is := strings.CutSuffix(path[i], segment[end:]); !is || name == "" {
				return 0, false
			}
			fixed++
		}
	}
	return fixed, true
}

// methodsOf returns the HTTP methods of a path, for the Allow header; nil means no JSON route has the path. The most
// specific routes count: /v1/approvals/{approval_id} also accepts /v1/approvals/ID:approve, whose own route takes
// precedence.
func (s *Services) methodsOf(path string) (methods []string) {
	segments, most := strings.Split(path, "/"), -1
	for i := range s.routes {
		r := &s.routes[i]
		fixed, matches := r.match(segments)
		if !matches || fixed < most {
			continue
		}
		if fixed > most {
			methods, most = nil, fixed
		}
		methods = append(methods, r.verb)
		if r.verb == http.MethodGet && !r.streams {
			methods = append(methods, http.MethodHead)
		}
	}
	slices.Sort(methods)
	return slices.Compact(methods)
}
