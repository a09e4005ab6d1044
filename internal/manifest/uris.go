package manifest

import "strings"

// URIs holds the URIs that an MCP server lists, with those of its templates, for searches. It is immutable. nil has
// none.
type URIs struct {
	listed    map[string]bool
	templates map[string][]pattern // by scheme
	schemes   map[string]bool
}

func newURIs(f *Features) *URIs {
	u := &URIs{listed: map[string]bool{}, templates: map[string][]pattern{}, schemes: map[string]bool{}}
	for _, r := range f.Resources {
		u.listed[r.URI], u.schemes[SchemeOf(r.URI)] = true, true
	}
	for _, t := range f.Templates {
		scheme := SchemeOf(t.Template)
		u.templates[scheme], u.schemes[scheme] = append(u.templates[scheme], newPattern(t.Template)), true
	}
	return u
}

// Has reports whether the server lists a URI, or a template of it. The time is linear in the length of the URI for each
// template with its scheme.
func (u *URIs) Has(uri string) bool {
	if u == nil || u.listed[uri] {
		return u != nil
	}
	for _, p := range u.templates[SchemeOf(uri)] {
		if p.matches(uri) {
			return true
		}
	}
	return false
}

// HasScheme reports whether the server lists a URI or a template with a scheme.
func (u *URIs) HasScheme(scheme string) bool { return u != nil && u.schemes[scheme] }

// SchemeOf returns the scheme of a URI, or of a template, in lower case. Schemes have no case (RFC 3986 §3.1).
func SchemeOf(uri string) string {
	scheme, _, _ := strings.Cut(uri, ":")
	return strings.ToLower(scheme)
}

// pattern is a template (RFC 6570) without its expressions.
type pattern struct {
	first, last string   // literals at the beginning and at the end
	middle      []string // literals between expressions
	whole       bool     // there is no expression, and first is all
}

func newPattern(template string) (p pattern) {
	first, rest, more := strings.Cut(template, "{")
	if p.first, p.whole = first, !more; !more {
		return p
	}
	for {
		_, rest, _ = strings.Cut(rest, "}")
		literal, after, more := strings.Cut(rest, "{")
		if !more {
			p.last = literal
			return p
		}
		if literal != "" {
			p.middle = append(p.middle, literal)
		}
		rest = after
	}
}

// matches reports whether a URI may be one of the template: it has the literals of the template, in order.
func (p *pattern) matches(uri string) bool {
	if p.whole {
		return uri == p.first
	}
	uri, ok := strings.CutPrefix(uri, p.first)
	if !ok {
		return false
	}
	if uri, ok = strings.CutSuffix(uri, p.last); !ok {
		return false
	}
	for _, literal := range p.middle {
		if _, uri, ok = strings.Cut(uri, literal); !ok {
			return false
		}
	}
	return true
}
