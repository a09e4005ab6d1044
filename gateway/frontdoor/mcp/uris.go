package mcp

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"github.com/capgate/capgate/internal/lib/plainjson"
	"github.com/capgate/capgate/internal/manifest"
)

// qualifier is the scheme of URIs that name their capability: capgate:CAPABILITY:URI, with the server's own URI. A
// server's own URI with this scheme is always written in this form.
const qualifier = "capgate:"

// qualified returns a URI, or a template of URIs, that names its capability.
func qualified(capability, uri string) string { return qualifier + capability + ":" + uri }

// isQualified reports whether a URI has the scheme of qualified ones. Schemes have no case (RFC 3986 §3.1).
func isQualified(uri string) bool {
	return len(uri) >= len(qualifier) && strings.EqualFold(uri[:len(qualifier)], qualifier)
}

// uris resolves URIs of resources for a caller. A URI that one server alone claims, by listing it or a template of it,
// is unchanged. All others name their capability.
type uris struct {
	readers   []string            // capabilities whose resources the caller may read
	exact     map[string]string   // by listed URI: its capability; empty means several
	templates map[string][]string // listed templates by capability
	schemes   map[string]string   // by scheme of listed templates and resources: its capability; empty means several
}

func newURIs(offers []Offer) *uris {
	u := &uris{exact: map[string]string{}, templates: map[string][]string{}, schemes: map[string]string{}}
	for i := range offers {
		o := &offers[i]
		if !o.Reads {
			continue
		}
		u.readers = append(u.readers, o.Capability)
		for _, f := range o.Resources {
			claim(u.exact, f.URI, o.Capability)
			claim(u.schemes, schemeOf(f.URI), o.Capability)
		}
		for _, f := range o.Templates {
			u.templates[o.Capability] = append(u.templates[o.Capability], f.Template)
			claim(u.schemes, schemeOf(f.Template), o.Capability)
		}
	}
	return u
}

// reads reports whether the caller may read resources of a capability.
func (u *uris) reads(capability string) bool { return slices.Contains(u.readers, capability) }

// hasLinks reports whether content may have links or embedded resources.
func hasLinks(content []byte) bool { return bytes.Contains(content, []byte(`"resource`)) }

// claim records that a capability has a key.
func claim(of map[string]string, key, capability string) {
	if before, claimed := of[key]; claimed && before != capability {
		capability = ""
	}
	of[key] = capability
}

// schemeOf returns the scheme of a URI.
func schemeOf(uri string) string {
	scheme, _, _ := strings.Cut(uri, ":")
	return strings.ToLower(scheme)
}

// claimed returns the capability that alone claims a URI; empty means none or several, which ambiguous tells apart.
func (u *uris) claimed(uri string) (capability string, ambiguous bool) {
	capability, listed := u.exact[uri]
	if listed && capability == "" {
		return "", true
	}
	for _, reader := range u.readers {
		if reader == capability {
			continue
		}
		for _, template := range u.templates[reader] {
			if !matches(template, uri) {
				continue
			}
			if capability != "" {
				return "", true
			}
			capability = reader
			break
		}
	}
	return capability, false
}

// resolve returns the capability of a URI, and the URI of its server. ok is false if several servers claim it, or none
// does and the caller may read from several.
func (u *uris) resolve(uri string) (capability, own string, ok bool) {
	if isQualified(uri) {
		capability, own, ok = strings.Cut(uri[len(qualifier):], ":")
		return capability, own, ok && capability != "" && own != ""
	}
	capability, ambiguous := u.claimed(uri)
	if capability == "" && !ambiguous && len(u.readers) == 1 {
		capability = u.readers[0]
	}
	return capability, uri, capability != ""
}

// name returns the URI for the caller of a server's URI.
func (u *uris) name(capability, uri string) string {
	if of, _, ok := u.resolve(uri); ok && of == capability && !isQualified(uri) {
		return uri
	}
	return qualified(capability, uri)
}

// template returns the template for the caller of a server's template. Whether two templates have a URI in common is
// not decided: their schemes must differ.
func (u *uris) template(capability, template string) string {
	if !isQualified(template) && u.schemes[schemeOf(template)] == capability {
		return template
	}
	return qualified(capability, template)
}

// link is name for a URI in a result. The URI of a page that no server claims stays as it is: clients can open it.
func (u *uris) link(capability, uri string) string {
	switch schemeOf(uri) {
	case "http", "https":
		if of, ambiguous := u.claimed(uri); of == "" && !ambiguous {
			return uri
		}
	}
	if manifest.CheckURI(uri) != nil {
		return uri // it cannot be read
	}
	return u.name(capability, uri)
}

// matches reports whether a URI may be one of a template (RFC 6570): it has the literal parts of the template, in
// order.
func matches(template, uri string) bool {
	before, rest, more := strings.Cut(template, "{")
	if !strings.HasPrefix(uri, before) {
		return false
	}
	uri = uri[len(before):]
	for more {
		var part string
		_, rest, _ = strings.Cut(rest, "}")
		part, rest, more = strings.Cut(rest, "{")
		if !more {
			return strings.HasSuffix(uri, part)
		}
		at := strings.Index(uri, part)
		if at < 0 {
			return false
		}
		uri = uri[at+len(part):]
	}
	return uri == ""
}

// links rewrites the URIs of links and embedded resources in content, an array without its brackets. Bytes stay
// encoded.
func (u *uris) links(capability string, items []byte) []byte {
	var all []json.RawMessage
	if json.Unmarshal(append(append([]byte{'['}, items...), ']'), &all) != nil {
		return items
	}
	changed := false
	for i := range all {
		if own, ok := u.content(capability, all[i]); ok {
			all[i], changed = own, true
		}
	}
	if !changed {
		return items
	}
	return bytes.Join(rawOf(all), []byte(","))
}

func rawOf(all []json.RawMessage) [][]byte {
	texts := make([][]byte, len(all))
	for i := range all {
		texts[i] = all[i]
	}
	return texts
}

// content returns a content with the caller's URI; ok is false if it is unchanged.
func (u *uris) content(capability string, content json.RawMessage) (own json.RawMessage, ok bool) {
	var members map[string]json.RawMessage
	if json.Unmarshal(content, &members) != nil {
		return nil, false
	}
	switch string(members["type"]) {
	case `"resource_link"`:
		return u.member(capability, members)
	case `"resource"`:
		var resource map[string]json.RawMessage
		if json.Unmarshal(members["resource"], &resource) != nil {
			return nil, false
		}
		if members["resource"], ok = u.member(capability, resource); ok {
			own, err := plainjson.Marshal(members)
			return own, err == nil
		}
	}
	return nil, false
}

// member returns an object whose uri is that of the caller; ok is false if it is unchanged.
func (u *uris) member(capability string, members map[string]json.RawMessage) (own json.RawMessage, ok bool) {
	var uri string
	if json.Unmarshal(members["uri"], &uri) != nil {
		return nil, false
	}
	named := u.link(capability, uri)
	if named == uri {
		return nil, false
	}
	text, err := plainjson.Marshal(named)
	if err != nil {
		return nil, false
	}
	members["uri"] = text
	own, err = plainjson.Marshal(members)
	return own, err == nil
}
