package mcp

import (
	"testing"

	"github.com/capgate/capgate/internal/manifest"
)

// TestURIsLeadBack: the URI that a caller gets leads back to its server, whatever other servers list.
func TestURIsLeadBack(t *testing.T) {
	t.Parallel()
	offer := func(capability string, resources, templates []string) Offer {
		o := Offer{Capability: capability, Reads: true}
		for _, uri := range resources {
			o.Resources = append(o.Resources, &manifest.Feature{URI: uri})
		}
		for _, template := range templates {
			o.Templates = append(o.Templates, &manifest.Feature{Template: template})
		}
		return o
	}
	u := newURIs([]Offer{
		offer("files", []string{"file:///a"}, []string{"file:///{+path}", "doc://{id}/text"}),
		offer("other", []string{"file:///secret", "note://1", "capgate:files:file:///a"}, nil),
		{Capability: "hidden", Resources: []*manifest.Feature{{URI: "hidden://1"}}},
	})
	for _, c := range []struct{ capability, uri, want string }{
		{"files", "file:///a", "file:///a"},
		{"files", "file:///b", "file:///b"},
		{"files", "doc://7/text", "doc://7/text"},
		{"files", "unlisted://1", "capgate:files:unlisted://1"},
		{"other", "note://1", "note://1"},
		// A server cannot take the URIs of another one by listing them.
		{"other", "file:///secret", "capgate:other:file:///secret"},
		{"files", "file:///secret", "capgate:files:file:///secret"},
		{"other", "capgate:files:file:///a", "capgate:other:capgate:files:file:///a"},
		{"other", "CAPGATE:files:file:///a", "capgate:other:CAPGATE:files:file:///a"},
	} {
		got := u.name(c.capability, c.uri)
		capability, own, ok := u.resolve(got)
		if got != c.want || !ok || capability != c.capability || own != c.uri {
			t.Errorf("%s of %s: %s, which leads to %s of %s; want %s", c.uri, c.capability, got, own, capability,
				c.want)
		}
	}
	for _, uri := range []string{"file:///secret", "unlisted://1", "hidden://1", "capgate:", "capgate:files:",
		"capgate::x:y"} {
		if capability, _, ok := u.resolve(uri); ok {
			t.Errorf("%s leads to %s", uri, capability)
		}
	}
	if got := u.template("files", "doc://{id}/text"); got != "doc://{id}/text" {
		t.Error(got)
	}
	if got := u.template("files", "file:///{+path}"); got != "capgate:files:file:///{+path}" {
		t.Error(got)
	}
	items := `{"type":"text","text":"\"resource"},{"type":"resource_link","uri":"file:///secret","name":"s"},` +
		`{"type":"resource","resource":{"uri":"unlisted://1","blob":"AAA="}},` +
		`{"type":"resource_link","uri":"https://a/b"}`
	want := `{"type":"text","text":"\"resource"},` +
		`{"name":"s","type":"resource_link","uri":"capgate:files:file:///secret"},` +
		`{"resource":{"blob":"AAA=","uri":"capgate:files:unlisted://1"},"type":"resource"},` +
		`{"type":"resource_link","uri":"https://a/b"}`
	if got := string(u.links("files", []byte(items))); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}
