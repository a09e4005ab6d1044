package rest

import (
	"context"
	"net/http"
	"strings"
)

// probe marks a request that only checks whether a route matches.
type probe struct {
	hit    bool
	stream bool // the route only streams
	fixed  int  // number of fixed segments of its pattern
}

type probeKey struct{}

func probeOf(r *http.Request) *probe {
	p, _ := r.Context().Value(probeKey{}).(*probe)
	return p
}

// allowed returns the methods of r's path for the Allow header; nil for an unknown path. The mux does not list its
// routes, so it is probed with each method: prepare and noRoute stop at a probe. The most specific pattern counts:
// /approvals/{approval_id} also matches /approvals/ID:approve.
func (h *Handler) allowed(r *http.Request) []string {
	var methods []string
	most := 0
	for _, m := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
		p := new(probe)
		asking := r.WithContext(context.WithValue(r.Context(), probeKey{}, p))
		asking.Method = m
		h.mux.ServeHTTP(nowhere{}, asking)
		if !p.hit || p.fixed < most {
			continue
		}
		if p.fixed > most {
			methods, most = nil, p.fixed
		}
		methods = append(methods, m)
		if m == http.MethodGet && !p.stream {
			methods = append(methods, http.MethodHead)
		}
	}
	if methods != nil {
		methods = append(methods, http.MethodOptions)
	}
	return methods
}

// fixedParts returns the number of fixed segments of a pattern, including its verb.
func fixedParts(pattern string) (n int) {
	for segment := range strings.SplitSeq(pattern, "/") {
		if !strings.HasSuffix(segment, "}") && segment != "**" {
			n++
		}
	}
	return n
}

// nowhere is the response to a probe.
type nowhere struct{}

func (nowhere) Header() http.Header         { return http.Header{} }
func (nowhere) Write(p []byte) (int, error) { return len(p), nil }
func (nowhere) WriteHeader(int)             {}

type headKey struct{}

// isHead reports whether r is a HEAD that is served as GET.
func isHead(r *http.Request) bool { return r.Context().Value(headKey{}) != nil }

// onlyStreamed reports whether a GET of a path only streams. Starting it for a HEAD would make a call.
func onlyStreamed(pattern string) bool { return pattern == toolStream || pattern == EventsPath }

// asGET converts a HEAD to its GET. The server sends no body. Routes with their own HEAD do not use it.
func (h *Handler) asGET(r *http.Request) *http.Request {
	p := new(probe)
	h.mux.ServeHTTP(nowhere{}, r.WithContext(context.WithValue(r.Context(), probeKey{}, p)))
	if p.hit {
		return r
	}
	r = r.WithContext(context.WithValue(r.Context(), headKey{}, true))
	r.Method = http.MethodGet
	return r
}
