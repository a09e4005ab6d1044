package manifest

import (
	"bytes"
	"encoding/json"
	"slices"
)

// AppMember is the member of a tool's _meta about its app (MCP Apps, SEP-1865).
const AppMember = "ui"

// MayHaveApp reports whether a tool's _meta may name an app. Names may be escaped.
func MayHaveApp(meta json.RawMessage) bool {
	return bytes.Contains(meta, []byte(`"`+AppMember)) || bytes.IndexByte(meta, '\\') >= 0
}

// AppOf returns the member about the app in a tool's _meta; nil means none.
func AppOf(meta json.RawMessage) (app map[string]json.RawMessage) {
	if !MayHaveApp(meta) {
		return nil
	}
	var members map[string]json.RawMessage
	if json.Unmarshal(meta, &members) != nil || json.Unmarshal(members[AppMember], &app) != nil {
		return nil
	}
	return app
}

// audience is for whom the _meta of a tool is. The zero value is that of a tool without an app.
type audience struct{ app, notModels, notApps bool }

// audienceOf reads _meta. A tool is for models and for apps, unless it says otherwise.
func audienceOf(meta json.RawMessage) audience {
	app := AppOf(meta)
	var all []string
	if json.Unmarshal(app["visibility"], &all) != nil || all == nil {
		return audience{app: app != nil}
	}
	return audience{true, !slices.Contains(all, "model"), !slices.Contains(all, "app")}
}

// HasApp reports whether the tool has an app, or is visible only to apps or models. The extras are those that Sound
// returns, or nil.
func (e *Extras) HasApp() bool { return e != nil && e.audience.app }

// ForModels reports whether models may see the tool.
func (e *Extras) ForModels() bool { return e == nil || !e.audience.notModels }

// ForApps reports whether apps may call the tool.
func (e *Extras) ForApps() bool { return e == nil || !e.audience.notApps }
