package mcp

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/capgate/capgate/gateway/frontdoor/problem"
	"github.com/capgate/capgate/internal/manifest"
	"github.com/capgate/capgate/internal/testkit/check"
)

// TestURIsLeadBack: the URI that a caller gets leads back to its server, whatever other servers list.
func TestURIsLeadBack(t *testing.T) {
	t.Parallel()
	u := newURIs([]Offer{
		offer(t, "files", []string{"file:///a"}, []string{"file:///{+path}", "doc://{id}/text"}),
		offer(t, "other", []string{"file:///secret", "note://1", "capgate:files:file:///a"}, nil),
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
}

// offer returns an offer of a server that lists some URIs and templates.
func offer(t *testing.T, capability string, resources, templates []string) Offer {
	t.Helper()
	f := new(manifest.Features)
	for _, uri := range resources {
		f.Resources = append(f.Resources, &manifest.Feature{URI: uri})
	}
	for _, template := range templates {
		f.Templates = append(f.Templates, &manifest.Feature{Template: template})
	}
	text, err := json.Marshal(f)
	check.Must(t, err)
	f, err = manifest.ParseFeatures(text)
	check.Must(t, err)
	return Offer{Capability: capability, Reads: true, Resources: f.Resources, Templates: f.Templates, URIs: f.URIs}
}

// TestURIsOfUnknownServers: while the lists of one of several servers are not known, only URIs that name their server
// lead to one, and the error says so.
func TestURIsOfUnknownServers(t *testing.T) {
	t.Parallel()
	b := offer(t, "b", []string{"file:///x"}, []string{"doc://{id}"})
	unknown := Offer{Capability: "a", Reads: true, Unknown: true}
	u := newURIs([]Offer{unknown, b})
	if got := u.name("b", "file:///x"); got != "capgate:b:file:///x" {
		t.Error(got)
	}
	if got := u.template("b", "doc://{id}"); got != "capgate:b:doc://{id}" {
		t.Error(got)
	}
	for _, uri := range []string{"file:///x", "doc://1", "other://1"} {
		if capability, _, ok := u.resolve(uri); ok {
			t.Errorf("%s leads to %s", uri, capability)
		}
	}
	for _, capability := range []string{"a", "b"} {
		if of, own, ok := u.resolve("capgate:" + capability + ":file:///x"); !ok || of != capability ||
			own != "file:///x" {
			t.Error(of, own, ok)
		}
	}
	x := &exchange{read: &message{}}
	if text := u.unresolved(x, "file:///x").Error(); !strings.Contains(text, "capgate:CAPABILITY:URI") {
		t.Error(text)
	}
	if text := newURIs([]Offer{b}).unresolved(x, "y:x").Error(); !strings.Contains(text, "there is no resource") {
		t.Error(text)
	}
	unknown.Reads = false // by policy
	for _, offers := range [][]Offer{{unknown, b}, {b}, {{Capability: "b", Reads: true, Unknown: true}}} {
		if of, _, ok := newURIs(offers).resolve("file:///x"); !ok || of != "b" {
			t.Errorf("%+v: %s", offers, of)
		}
	}
}

// TestUnknownResourceIsClipped: the error for an unknown resource has a part of a long URI.
func TestUnknownResourceIsClipped(t *testing.T) {
	t.Parallel()
	x := &exchange{read: &message{}}
	var p *problem.Problem
	if err := unknownResource(x, "x:"+strings.Repeat("a", 1<<20)); !errors.As(err, &p) ||
		len(p.Detail) > 512 || len(p.Metadata[uriKey]) > manifest.MaxURI+len("…") {
		t.Errorf("%.300v", err)
	}
}
