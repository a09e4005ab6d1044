package request

import (
	"context"
	"net/http"
)

// Scope is a context of a request to which the handlers of the request add values in place, by With. A copy of the
// request for each value would cost more. Values must be added before the context is passed to other goroutines.
type Scope struct {
	context.Context //nolint:containedctx // a Scope is a context
	n               int
	values          [scopeSize]scopeValue
}

// scopeSize is the maximum number of values of a Scope: one for each handler.
const scopeSize = 6

type scopeValue struct{ key, value any }

// Outer implements relay.ValueContext.
func (s *Scope) Outer() context.Context { return s.Context }

// Value implements context.Context.
func (s *Scope) Value(key any) any {
	if i := s.find(key); i >= 0 {
		return s.values[i].value
	}
	return s.Context.Value(key)
}

// find returns the index of a key; -1 means absent.
func (s *Scope) find(key any) int {
	for i := range s.values[:s.n] {
		if s.values[i].key == key {
			return i
		}
	}
	return -1
}

// scope makes every context that embeds a Scope one for With.
func (s *Scope) scope() *Scope { return s }

// With returns a request whose context has a value. It is r itself if its context is, or embeds, a Scope with room that
// does not have the key yet.
func With(r *http.Request, key, value any) *http.Request {
	c, ok := r.Context().(interface{ scope() *Scope })
	if !ok {
		return r.WithContext(context.WithValue(r.Context(), key, value))
	}
	s := c.scope()
	if s.n == scopeSize || s.find(key) >= 0 {
		return r.WithContext(context.WithValue(r.Context(), key, value))
	}
	s.values[s.n] = scopeValue{key, value}
	s.n++
	return r
}
