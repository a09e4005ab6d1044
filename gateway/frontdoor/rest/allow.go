package rest

import (
	"context"
	"net/http"
	"strings"
)

// probe marks a request that only asks whether a route takes it.
type probe struct {
	hit    bool
	stream bool // it has nothing but a stream
	fixed  int  // parts of its pattern that are no variable
}

type probeKey struct{}

func probeOf(r *http.Request) *probe {
	p, _ := r.Context().Value(probeKey{}).(*probe)
	return p
}

// allowed returns the methods of r's path, as the value of an Allow header; "" for an unknown path. The mux does not
// list its routes, so it is probed with each method: prepare and noRoute stop at a probe. Methods of a pattern whose
// variable takes more than another one do not count: /approvals/{approval_id} matches /approvals/ID:approve, too.
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

// fixedParts counts the segments of a pattern that are no variable, and its verb.
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

// isHead is whether r is a HEAD that is served as the GET which it asks about.
func isHead(r *http.Request) bool { return r.Context().Value(headKey{}) != nil }

// onlyStreamed is whether a GET of a path has nothing but a stream: to begin it for a HEAD would make a call.
func onlyStreamed(pattern string) bool { return pattern == toolStream || pattern == EventsPath }

// asGET converts a HEAD to its GET. The server sends no body. Routes with a HEAD of their own do not use it.
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
