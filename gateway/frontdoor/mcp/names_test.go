package mcp_test

import (
	"context"
	"strings"
	"testing"

	"github.com/capgate/capgate/gateway/frontdoor/mcp"
)

// tooled is the view of a caller that sees all capabilities but hidden ones.
type tooled struct {
	tools  map[string]bool // "capability tool"
	hidden map[string]bool
}

func (v *tooled) Sees(_ context.Context, capability string) bool { return !v.hidden[capability] }

func (v *tooled) Has(_ context.Context, capability, tool string) bool {
	return v.tools[capability+" "+tool]
}

// TestNamesCollide: a name leads to one tool, and a tool that another one's name would lead to has none.
func TestNamesCollide(t *testing.T) {
	t.Parallel()
	names := mcp.NewNames(map[string]string{"mail": "post", "a": "", "b": ""})
	tools := map[string]bool{"a x": true, "b x": true, "b y": true, "post send": true, "mail send": true,
		"a post__send": true}
	view := &tooled{tools: tools}
	for tool, want := range map[string]string{
		"mail send": "post__send", "other send": "other__send", "a x": "x", "b y": "y", "other a__b": "other__a__b",
		"b x":                               "", // it is a's
		"post send":                         "", // the prefix is that of mail
		"a post__send":                      "", // it is that of mail
		"other " + strings.Repeat("x", 121): "other__" + strings.Repeat("x", 121),
		"other " + strings.Repeat("x", 122): "",
	} {
		capability, of, _ := strings.Cut(tool, " ")
		name, ok := names.Of(t.Context(), capability, of, view)
		if ok != (want != "") || ok && name != want {
			t.Errorf("%s: %q, %t; want %q", tool, name, ok, want)
		}
	}
	for name, want := range map[string]string{
		"post__send": "mail send", "mail__send": "", "a__x": "", "x": "a x", "y": "b y", "z": "", "": "", "__x": "",
		"c__":    "",
		"c____x": "c __x",
	} {
		capability, tool, ok := names.Resolve(t.Context(), name, view)
		if got := capability + " " + tool; ok != (want != "") || ok && got != want {
			t.Errorf("%q: %q, %t; want %q", name, got, ok, want)
		}
	}
	if capability, _, ok := mcp.NewNames(map[string]string{"a": ""}).Resolve(t.Context(), "z", view); !ok ||
		capability != "a" {
		t.Errorf("a tool that is not known yet, of the only capability without a prefix: %q, %t", capability, ok)
	}
}

// TestNamesOfHiddenCapabilities: a capability that the caller does not see takes no name from the caller's own.
func TestNamesOfHiddenCapabilities(t *testing.T) {
	t.Parallel()
	names := mcp.NewNames(map[string]string{"mail": "post", "a": "", "b": "", "c": ""})
	view := &tooled{tools: map[string]bool{"a x": true, "b x": true, "post send": true, "c y": true},
		hidden: map[string]bool{"mail": true, "a": true, "c": true}}
	for name, want := range map[string]string{"x": "b x", "y": "b y", "post__send": "post send"} {
		capability, tool, ok := names.Resolve(t.Context(), name, view)
		if got := capability + " " + tool; !ok || got != want {
			t.Errorf("%q: %q, %t; want %q", name, got, ok, want)
		}
	}
	if name, ok := names.Of(t.Context(), "b", "x", view); !ok || name != "x" {
		t.Errorf("%q, %t", name, ok)
	}
	view.hidden["b"] = true
	if capability, _, ok := names.Resolve(t.Context(), "x", view); ok || capability != "" {
		t.Errorf("a hidden capability: %q, %t", capability, ok)
	}
}
