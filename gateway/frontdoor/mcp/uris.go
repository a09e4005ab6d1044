package mcp

import (
	"slices"
	"strings"

	"github.com/capgate/capgate/internal/manifest"
)

// qualifier is the scheme of URIs that name their capability: capgate:CAPABILITY:URI, with the server's own URI. A
// server's own URI with this scheme is always written in this form.
const qualifier = "capgate:"

// URIs of apps always name their capability, as ui://capgate/CAPABILITY/REST. Hosts require the scheme, and servers
// need not list them.
const (
	appScheme    = "ui://"
	appQualifier = appScheme + "capgate/"
)

// qualified returns a URI, or a template of URIs, that names its capability.
func qualified(capability, uri string) string {
	if rest, isApp := strings.CutPrefix(uri, appScheme); isApp {
		return appQualifier + capability + "/" + rest
	}
	return qualifier + capability + ":" + uri
}

// isQualified reports whether a URI has the form of qualified ones. Schemes have no case (RFC 3986 §3.1).
func isQualified(uri string) bool {
	return len(uri) >= len(qualifier) && strings.EqualFold(uri[:len(qualifier)], qualifier) ||
		strings.HasPrefix(uri, appQualifier)
}

// uris resolves URIs of resources for a caller. A URI that one server alone claims, by listing it or a template of it,
// is unchanged. All others name their capability.
type uris struct{ readers []reader }

// reader is a capability whose resources the caller may read.
type reader struct {
	capability string
	uris       *manifest.URIs // that it lists
	unknown    bool           // it may list any
}

func newURIs(offers []Offer) *uris {
	u := new(uris)
	for i := range offers {
		if o := &offers[i]; o.Reads {
			u.readers = append(u.readers, reader{o.Capability, o.URIs, o.Unknown})
		}
	}
	return u
}

// reads reports whether the caller may read resources of a capability.
func (u *uris) reads(capability string) bool {
	return slices.ContainsFunc(u.readers, func(r reader) bool { return r.capability == capability })
}

// open reports whether a server of several may claim any URI, because its lists are not known.
func (u *uris) open() bool {
	return len(u.readers) > 1 && slices.ContainsFunc(u.readers, func(r reader) bool { return r.unknown })
}

// lists reports whether a server lists a URI with a scheme.
func (u *uris) lists(scheme string) bool {
	return slices.ContainsFunc(u.readers, func(r reader) bool { return r.uris.HasScheme(scheme) })
}

// claimed returns the capability that alone claims a URI; empty means none or several, which ambiguous tells apart.
func (u *uris) claimed(uri string) (capability string, ambiguous bool) {
	for i := range u.readers {
		r := &u.readers[i]
		switch {
		case !r.uris.Has(uri):
		case capability != "":
			return "", true
		default:
			capability = r.capability
		}
	}
	return capability, false
}

// resolve returns the capability of a URI, and the URI of its server. ok is false if several servers claim it or may
// claim it, or none does and the caller may read from several.
func (u *uris) resolve(uri string) (capability, own string, ok bool) {
	if rest, isApp := strings.CutPrefix(uri, appQualifier); isApp {
		capability, own, ok = strings.Cut(rest, "/")
		return capability, appScheme + own, ok && capability != "" && own != ""
	}
	if isQualified(uri) {
		capability, own, ok = strings.Cut(uri[len(qualifier):], ":")
		return capability, own, ok && capability != "" && own != ""
	}
	if u.open() || manifest.CheckURI(uri) != nil {
		return "", uri, false
	}
	capability = u.sole(u.claimed(uri))
	return capability, uri, capability != ""
}

// sole returns the only capability that may have a URI, which claimed returned; empty means none or several.
func (u *uris) sole(claimed string, ambiguous bool) string {
	switch {
	case ambiguous || u.open():
		return ""
	case claimed == "" && len(u.readers) == 1:
		return u.readers[0].capability
	}
	return claimed
}

// name returns the URI for the caller of a server's URI.
func (u *uris) name(capability, uri string) string {
	if of, _, ok := u.resolve(uri); ok && of == capability && !isQualified(uri) &&
		!strings.HasPrefix(uri, appScheme) {
		return uri
	}
	return qualified(capability, uri)
}

// template returns the template for the caller of a server's template. Whether two templates have a URI in common is
// not decided: their schemes must differ.
func (u *uris) template(capability, template string) string {
	scheme := manifest.SchemeOf(template)
	if isQualified(template) || strings.HasPrefix(template, appScheme) || u.open() ||
		slices.ContainsFunc(u.readers, func(r reader) bool {
			return r.capability != capability && r.uris.HasScheme(scheme)
		}) {
		return qualified(capability, template)
	}
	return template
}
