package admin

import (
	"net/http"
	"slices"
	"strings"
)

// jsonRoute is a JSON route of a service.
type jsonRoute struct {
	verb     string
	segments []string // of its path, as google.api.http has them
	streams  bool     // it has no HEAD
}

// match reports whether the route takes a path, and how many of its parts are no variable.
func (r *jsonRoute) match(path []string) (fixed int, matches bool) {
	if len(path) != len(r.segments) {
		return 0, false
	}
	for i, segment := range r.segments {
		end := strings.LastIndexByte(segment, '}') + 1
		switch {
		case end == 0 && segment != path[i], path[i] == "":
			if i > 0 || segment != path[i] { // a path begins with a slash
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

// methodsOf returns the methods of a path, for the header Allow; nil means it is the path of no JSON route. Routes
// with a variable that takes more than that of another route do not count: /v1/approvals/{approval_id} takes
// /v1/approvals/ID:approve, too.
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
