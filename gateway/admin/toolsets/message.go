package toolsets

import (
	"context"
	"fmt"
	"strings"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/capgate/capgate/gateway/frontdoor/mcp"
	"github.com/capgate/capgate/internal/toolschema"
	"github.com/capgate/capgate/internal/toolset"
	"github.com/capgate/capgate/policy/catalog"
	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
)

// messageOf returns a toolset as it was set.
func messageOf(set *toolset.Set) *capgatepb.Toolset {
	of := set.Toolset()
	t := Message(of)
	t.Source, t.Path = set.Source(), mcp.Path+"/"+of.Name
	if r := set.Record(); r != nil {
		t.Tenant, t.Global, t.Etag, t.SetBy = r.Tenant, r.Tenant == "", r.Etag, r.By
		t.UpdateTime = timestamppb.New(r.Updated)
	} else {
		t.Tenants = of.Tenants
	}
	for i, one := range t.GetTools() {
		for _, fixed := range of.Tools[i].Arguments {
			one.Fixed = append(one.Fixed, fixed.Name)
		}
	}
	return t
}

// Message returns the name, groups and tools of a toolset.
func Message(of *toolset.Toolset) *capgatepb.Toolset {
	t := &capgatepb.Toolset{Name: of.Name, Groups: of.Groups}
	for i := range of.Tools {
		e := &of.Tools[i]
		one := &capgatepb.Toolset_Entry{Capability: e.Capability, Tool: e.Tool, Name: e.Name,
			Description: e.Description}
		if e.Hash != (toolschema.Hash{}) {
			one.Hash = e.Hash.String()
		}
		if len(e.Arguments) > 0 {
			one.Arguments = string(e.Arguments.Object())
		}
		t.Tools = append(t.Tools, one)
	}
	return t
}

// message returns a toolset as an operator sees it. whole adds the differences of changed tools.
func (s *server) message(ctx context.Context, v view, set *toolset.Set, whole bool) *capgatepb.Toolset {
	t, owns := messageOf(set), v.owns(set)
	accepted := map[string]map[string]catalog.Version{} // by capability, each read once
	all := t.GetTools()
	t.Tools, t.Tenants = nil, v.seenTenants(t.GetTenants())
	for i, one := range all {
		e := &set.Toolset().Tools[i]
		if !v.chooses(set, e) {
			continue
		}
		if t.Tools = append(t.Tools, one); !owns {
			one.Arguments = ""
		}
		now, known := catalog.Tool{}, false
		if v.sees(e.Capability) {
			now, known = s.Catalog.Describe(e.Capability, e.Tool)
		}
		switch {
		case one.GetHash() == "":
		case !known:
			one.State = "unknown"
		case e.Changed(now.Hash, true):
			one.State = "changed"
			t.ChangedCount++
		default:
			one.State = "current"
		}
		if !whole {
			continue
		}
		one.Problem = e.Problem(ctx, v, s.More != nil && s.More())
		if one.Problem == "" {
			one.Problem = s.withheld(ctx, v, set, e)
		}
		if one.GetState() == "changed" {
			if _, read := accepted[e.Capability]; !read && s.Versions != nil {
				accepted[e.Capability] = s.Catalog.AcceptedVersions(ctx, s.Versions, e.Capability)
			}
			addVersions(one, e, &now, accepted[e.Capability])
		}
	}
	return t
}

// withheld returns the problem of an entry whose capability a tenant of the toolset does not have, or "".
func (s *server) withheld(ctx context.Context, v view, set *toolset.Set, e *toolset.Entry) string {
	if strings.Contains(e.Capability, "*") || !v.sees(e.Capability) {
		return ""
	}
	for _, id := range v.seenTenants(set.Toolset().Tenants) {
		if of, err := s.Tenants.Settings(ctx, id); err == nil && !of.Sees(e.Capability) {
			return fmt.Sprintf("the tenant %s does not have %s", id, e.Capability)
		}
	}
	return ""
}

// addVersions adds the versions of a changed tool: that of now, and the described one if it is an accepted version.
func addVersions(to *capgatepb.Toolset_Entry, e *toolset.Entry, now *catalog.Tool,
	accepted map[string]catalog.Version) {
	to.Current = &capgatepb.CatalogEntry_Version{Hash: now.Hash.String(), Description: now.Description,
		OutputSchema: string(now.Output.JSON())}
	if now.Schema != nil {
		to.Current.InputSchema = string(now.Schema.JSON())
	}
	if v, known := accepted[e.Tool]; known && v.Hash == e.Hash {
		to.Described = &capgatepb.CatalogEntry_Version{Hash: v.Hash.String(), Description: v.Description,
			InputSchema: string(v.Schema), OutputSchema: string(v.Output)}
	}
}
