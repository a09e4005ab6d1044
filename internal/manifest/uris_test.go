package manifest_test

import (
	"strings"
	"testing"

	"github.com/capgate/capgate/internal/manifest"
)

// TestURIs: a server has the URIs that it lists, and those that have the literals of a template, in order.
func TestURIs(t *testing.T) {
	t.Parallel()
	f, err := manifest.ParseFeatures([]byte(`{"resources":[{"name":"a","uri":"Note://1"}],"templates":[` +
		`{"name":"b","uriTemplate":"doc://{id}/text"},{"name":"c","uriTemplate":"x:{}ab{}ba"},` +
		`{"name":"d","uriTemplate":"whole://a"},{"name":"e","uriTemplate":"odd://{a"},` +
		`{"name":"f","uriTemplate":"tail://{+path}"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	for uri, want := range map[string]bool{
		"Note://1": true, "note://1": false, "doc://7/text": true, "doc:///text": true, "doc://7/tex": false,
		"doc://text": false, "x:abba": true, "x:1ab2ab3ba": true, "x:aba": false, "x:ab": false, "x:baab": false,
		"whole://a": true, "whole://ab": false, "odd://": true, "tail://": true, "tail://a/b": true, "tai": false,
		"": false,
	} {
		if got := f.URIs.Has(uri); got != want {
			t.Errorf("%q: %v", uri, got)
		}
	}
	if !f.URIs.HasScheme("note") || !f.URIs.HasScheme("doc") || f.URIs.HasScheme("file") {
		t.Error("the schemes are not those of the lists")
	}
	var none *manifest.URIs
	if none.Has("a:b") || none.HasScheme("a") {
		t.Error("nil has a URI")
	}
}

// TestLimitsOfTemplates bounds the time to find the server of a URI.
func TestLimitsOfTemplates(t *testing.T) {
	t.Parallel()
	for template, want := range map[string]string{
		"x:" + strings.Repeat("{a}", 8):            "",
		"x:" + strings.Repeat("{a}", 9):            "more than 8 expressions",
		"x:" + strings.Repeat("a", 510):            "",
		"x:" + strings.Repeat("a", 511):            "longer than 512 bytes",
		"x: {a}":                                   "space",
		"x:\u00a0{a}":                              "space",
		strings.Repeat(" ", manifest.MaxURI) + ":": "longer",
	} {
		f := manifest.Feature{Name: "a", Template: template}
		err := f.Check(template)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %v, want %s", template, err, want)
		}
	}
}
