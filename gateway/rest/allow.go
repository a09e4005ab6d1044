package rest

import (
	"context"
	"net/http"
)

// probe marks a request that only asks whether a route takes it.
type probe struct{ hit bool }

type probeKey struct{}

func probeOf(r *http.Request) *probe {
	p, _ := r.Context().Value(probeKey{}).(*probe)
	return p
}

// allowed are the methods of r's path, as the value of an Allow header; none when no
// route has the path. It asks the mux, which knows the routes but does not tell them:
// prepare and noRoute stop at a probe.
func (h *Handler) allowed(r *http.Request) []string {
	var methods []string
	for _, m := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
		p := new(probe)
		asking := r.WithContext(context.WithValue(r.Context(), probeKey{}, p))
		asking.Method = m
		h.mux.ServeHTTP(nowhere{}, asking)
		if p.hit {
			methods = append(methods, m)
		}
	}
	if methods != nil {
		methods = append(methods, http.MethodOptions)
	}
	return methods
}

// nowhere is the response to a probe.
type nowhere struct{}

func (nowhere) Header() http.Header         { return http.Header{} }
func (nowhere) Write(p []byte) (int, error) { return len(p), nil }
func (nowhere) WriteHeader(int)             {}
