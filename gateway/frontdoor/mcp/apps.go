package mcp

import (
	"context"
	"encoding/json"

	"github.com/capgate/capgate/gateway/questions"
	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/lib/plainjson"
	"github.com/capgate/capgate/internal/lib/strictjson"
	"github.com/capgate/capgate/internal/manifest"
)

// An app is a page that a host shows for a tool, and that calls tools itself (MCP Apps, SEP-1865). A tool names it in
// _meta, and the host reads it as a resource.

// showsApps reports whether the extensions of a client declare that it shows apps.
func showsApps(extensions strictjson.Value) bool {
	settings, ok := extensions.Get(questions.AppsExtension)
	if !ok || settings.Kind() != strictjson.Object {
		return false
	}
	types, ok := settings.Get("mimeTypes")
	if !ok || types.Kind() != strictjson.Array {
		return false
	}
	for _, typ := range types.Elements() {
		if typ.Kind() == strictjson.String && string(typ.Bytes()) == questions.AppType {
			return true
		}
	}
	return false
}

// showsApps reports whether the client of a request has declared that it shows apps.
func (x *exchange) showsApps() bool {
	if x.read.isStateless() {
		return x.read.meta.Apps
	}
	return x.session.Apps
}

// declareApps makes the gateway declare to the server of a call that its client shows apps, if it does.
func (i *invocation) declareApps() {
	if i.results.Relayed && i.exchange.showsApps() {
		i.fields = append(i.fields[:len(i.fields):len(i.fields)], relay.Field{Name: questions.AppsMetadata, Value: "1"})
	}
}

// Members that name the app of a tool.
const (
	appURI    = "resourceUri"    // in manifest.AppMember
	oldAppURI = "ui/resourceUri" // in _meta, deprecated
)

// withApp returns the _meta of a tool with the URI of its app for the caller, which leads to the server of the tool,
// whatever the server has written.
func withApp(capability string, meta json.RawMessage) json.RawMessage {
	var members map[string]json.RawMessage
	if !manifest.MayHaveApp(meta) || json.Unmarshal(meta, &members) != nil {
		return meta
	}
	ui := manifest.AppOf(meta)
	changed := qualify(capability, members, oldAppURI)
	if qualify(capability, ui, appURI) {
		text, err := plainjson.Marshal(ui)
		if err != nil {
			return nil
		}
		members[manifest.AppMember], changed = text, true
	}
	if !changed {
		return meta
	}
	text, err := plainjson.Marshal(members)
	if err != nil {
		return nil
	}
	return text
}

// qualify makes a member with a URI name its capability, and reports whether there is one.
func qualify(capability string, members map[string]json.RawMessage, name string) bool {
	var uri *string
	if json.Unmarshal(members[name], &uri) != nil || uri == nil {
		return false
	}
	text, err := plainjson.Marshal(qualified(capability, *uri))
	if err != nil {
		return false
	}
	members[name] = text
	return true
}

// toolNamed returns the tool with a name for a caller. An app knows the names of its server alone. So if the client
// shows apps, a name that has no other meaning is that of the only server with apps that lists such a tool for them.
func (h *Handler) toolNamed(ctx context.Context, name string, apps bool) (capability, tool string, ok bool) {
	capability, tool, ok = h.toolOf(ctx, name)
	if ok || !apps || name == "" || len(name) > maxName {
		return capability, tool, ok
	}
	return h.appTool(ctx, name)
}

// appTool is toolNamed for a name that has no other meaning.
func (h *Handler) appTool(ctx context.Context, name string) (capability, tool string, ok bool) {
	found := 0
	err := h.cfg.Catalog.Tools(ctx, "", func(of string, tools []Tool) bool {
		hasApps, has := false, false
		for i := range tools {
			e := tools[i].Extras
			hasApps = hasApps || e.HasApp()
			if tools[i].Name == name && e.ForApps() {
				_, has = h.nameOf(ctx, of, name) // false outside of the client's toolset
			}
		}
		if hasApps && has {
			capability, tool = of, name
			found++
		}
		return found < 2
	})
	return capability, tool, err == nil && found == 1
}
