package guard

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// Mux registers the routes of the admin API. Each needs a row in the table of access.go, or is that of a method.
type Mux struct {
	mux     http.ServeMux
	rows    map[string]Access // by pattern
	methods []string          // of HandleMethods
	missing []string          // routes and methods without a role
	allowed func(path string) []string
}

// NewMux returns a Mux without routes.
func NewMux() *Mux { return &Mux{rows: map[string]Access{}} }

// Allowed sets what returns the methods of a path for the header Allow; nothing for other paths than those of RPCs.
func (m *Mux) Allowed(of func(path string) []string) { m.allowed = of }

// Handle registers a handler. A pattern without a row lets Guard.Handler fail.
func (m *Mux) Handle(pattern string, h http.Handler) {
	m.mux.Handle(pattern, h)
	row, ok := AccessOf(pattern)
	if !ok {
		m.missing = append(m.missing, pattern)
	}
	m.rows[pattern] = row
}

// HandleFunc registers a function as Handle does.
func (m *Mux) HandleFunc(pattern string, h func(http.ResponseWriter, *http.Request)) {
	m.Handle(pattern, http.HandlerFunc(h))
}

// HandleRPC registers the handler of a gRPC service, or of its JSON routes. The handler calls Authorize for each
// method.
func (m *Mux) HandleRPC(pattern string, h http.Handler) {
	m.mux.Handle(pattern, h)
	m.rows[pattern] = Access{Role: byMethod}
}

// byMethod is the role of routes whose methods are authorized by Authorize.
const byMethod = 1 << 7

// HandleMethods declares the gRPC methods that handlers of HandleRPC authorize, by their paths. One without the option
// capgate.v1.access lets Guard.Handler fail.
func (m *Mux) HandleMethods(paths ...string) {
	for _, path := range paths {
		if _, ok := AccessOf(path); !ok {
			m.missing = append(m.missing, path)
		}
	}
	m.methods = append(m.methods, paths...)
}

// Routes returns the patterns that have rows, and the gRPC methods, sorted. Patterns of HandleRPC are left out.
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
