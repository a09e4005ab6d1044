package guard

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// Mux registers the routes of the admin API. Each must have a row in access.go, or belong to a method.
type Mux struct {
	mux     http.ServeMux
	rows    map[string]Access // by pattern
	methods []string          // from HandleMethods
	missing []string          // routes and methods without a role
	allowed func(path string) []string
}

// NewMux returns a Mux without routes.
func NewMux() *Mux { return &Mux{rows: map[string]Access{}} }

// Allowed sets the function that returns the methods of a path for the Allow header. It returns nil for paths that are
// not RPCs.
func (m *Mux) Allowed(of func(path string) []string) { m.allowed = of }

// Handle registers a handler. For a pattern without a row, Guard.Handler fails.
func (m *Mux) Handle(pattern string, h http.Handler) {
	m.mux.Handle(pattern, h)
	row, ok := AccessOf(pattern)
	if !ok {
		m.missing = append(m.missing, pattern)
	}
	m.rows[pattern] = row
}

// HandleFunc registers a function, as Handle does.
func (m *Mux) HandleFunc(pattern string, h func(http.ResponseWriter, *http.Request)) {
	m.Handle(pattern, http.HandlerFunc(h))
}

// HandleRPC registers the handler of a gRPC service, or of its JSON routes. The handler must call Authorize for each
// method.
func (m *Mux) HandleRPC(pattern string, h http.Handler) {
	m.mux.Handle(pattern, h)
	m.rows[pattern] = Access{Role: byMethod}
}

// byMethod is the role of routes whose methods are authorized by Authorize.
const byMethod = 1 << 7

// HandleMethods declares the paths of gRPC methods that handlers of HandleRPC authorize. For a method without the
// option capgate.v1.access, Guard.Handler fails.
func (m *Mux) HandleMethods(paths ...string) {
	for _, path := range paths {
		if _, ok := AccessOf(path); !ok {
			m.missing = append(m.missing, path)
		}
	}
	m.methods = append(m.methods, paths...)
}

// Routes returns the patterns with rows, and the gRPC methods, sorted. Patterns of HandleRPC are omitted.
func (m *Mux) Routes() []string {
	all := slices.Clone(m.methods)
	for pattern, row := range m.rows {
		if row.Role != byMethod {
			all = append(all, pattern)
		}
	}
	slices.Sort(all)
	return all
}

// complete returns an error if a route has no row.
func (m *Mux) complete() error {
	if len(m.missing) == 0 {
		return nil
	}
	slices.Sort(m.missing)
	return fmt.Errorf("the admin API has no least role for %s: a method needs the option capgate.v1.access, any other "+
		"route a row in gateway/admin/guard/access.go",
		strings.Join(m.missing, ", "))
}
