package mcp_test

import (
	"strings"
	"testing"

	"github.com/capgate/capgate/gateway/frontdoor/mcp"
)

// TestNamesCollide: a name leads to one tool, and a tool that another one's name would lead to has none.
func TestNamesCollide(t *testing.T) {
	t.Parallel()
	names := mcp.NewNames(map[string]string{"mail": "post", "a": "", "b": ""})
	tools := map[string]bool{"a x": true, "b x": true, "b y": true, "post send": true, "mail send": true, "a post__send": true}
	known := func(capability, tool string) bool { return tools[capability+" "+tool] }
	for tool, want := range map[string]string{
		"mail send": "post__send", "other send": "other__send", "a x": "x", "b y": "y", "other a__b": "other__a__b",
		"b x":                               "", // it is a's
		"post send":                         "", // the prefix is that of mail
		"a post__send":                      "", // it is that of mail
		"other " + strings.Repeat("x", 121): "other__" + strings.Repeat("x", 121),
		"other " + strings.Repeat("x", 122): "",
	} {
		capability, of, _ := strings.Cut(tool, " ")
		name, ok := names.Of(capability, of, known)
		if ok != (want != "") || ok && name != want {
			t.Errorf("%s: %q, %t; want %q", tool, name, ok, want)
		}
	}
	for name, want := range map[string]string{
		"post__send": "mail send", "mail__send": "", "a__x": "", "x": "a x", "y": "b y", "z": "", "": "", "__x": "", "c__": "",
		"c____x": "c __x",
	} {
		capability, tool, ok := names.Resolve(name, known)
		if got := capability + " " + tool; ok != (want != "") || ok && got != want {
			t.Errorf("%q: %q, %t; want %q", name, got, ok, want)
		}
	}
	if capability, _, ok := mcp.NewNames(map[string]string{"a": ""}).Resolve("z", known); !ok || capability != "a" {
		t.Errorf("a tool that is not known yet, of the only capability without a prefix: %q, %t", capability, ok)
	}
}
