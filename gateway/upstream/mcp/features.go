package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/capgate/capgate/internal/lib/plainjson"
	"github.com/capgate/capgate/internal/lib/strictjson"
	"github.com/capgate/capgate/internal/lib/untrusted"
	"github.com/capgate/capgate/internal/manifest"
)

// listing is a list of a server, which has pages.
type listing struct {
	method string
	member string // of the result, with the items
	what   string // the items, for errors
	// request requests a page. The transport records its response.
	request func(ctx context.Context, cs *sdk.ClientSession, cursor string)
}

// toolListing returns the listing of tools.
func toolListing() listing {
	return listing{"tools/list", "tools", "tools", func(ctx context.Context, cs *sdk.ClientSession, cursor string) {
		_, _ = cs.ListTools(ctx, &sdk.ListToolsParams{Cursor: cursor})
	}}
}

// featureListing is the list of one kind of features.
type featureListing struct {
	listing
	has func(*sdk.ServerCapabilities) bool // reports whether a server has these features
	to  func(*manifest.Features) *[]*manifest.Feature
	// key removes the keys of other kinds, and returns the one that identifies a feature in the list.
	key func(*manifest.Feature) string
}

// featureListings returns the lists of all kinds.
func featureListings() []featureListing {
	return []featureListing{
		{listing{"prompts/list", "prompts", "prompts", func(ctx context.Context, cs *sdk.ClientSession, cursor string) {
			_, _ = cs.ListPrompts(ctx, &sdk.ListPromptsParams{Cursor: cursor})
		}}, func(c *sdk.ServerCapabilities) bool { return c.Prompts != nil },
			func(f *manifest.Features) *[]*manifest.Feature { return &f.Prompts },
			func(f *manifest.Feature) string {
				f.URI, f.Template = "", ""
				return f.Name
			}},
		{listing{"resources/list", "resources", "resources",
			func(ctx context.Context, cs *sdk.ClientSession, cursor string) {
				_, _ = cs.ListResources(ctx, &sdk.ListResourcesParams{Cursor: cursor})
			}}, func(c *sdk.ServerCapabilities) bool { return c.Resources != nil },
			func(f *manifest.Features) *[]*manifest.Feature { return &f.Resources },
			func(f *manifest.Feature) string {
				f.Template = ""
				return f.URI
			}},
		{listing{"resources/templates/list", "resourceTemplates", "templates of resources",
			func(ctx context.Context, cs *sdk.ClientSession, cursor string) {
				_, _ = cs.ListResourceTemplates(ctx, &sdk.ListResourceTemplatesParams{Cursor: cursor})
			}}, func(c *sdk.ServerCapabilities) bool { return c.Resources != nil },
			func(f *manifest.Features) *[]*manifest.Feature { return &f.Templates },
			func(f *manifest.Feature) string {
				f.URI = ""
				return f.Template
			}},
	}
}

// features requests the prompts, resources and templates of the server. A list that is too long, or that the server
// does not have, is empty. If the request of one fails, the last one stays.
func (v *server) features(ctx context.Context) ([]byte, error) {
	ctx, _ = withNote(ctx)
	cs, err := v.connect(ctx, v.client(apps), true)
	if err != nil {
		return nil, v.notStarted(ctx, err)
	}
	defer v.abandon(cs)
	all := new(manifest.Features)
	for _, kind := range featureListings() {
		if has := cs.InitializeResult().Capabilities; has == nil || !kind.has(has) {
			continue
		}
		var list []json.RawMessage
		err := v.pages(ctx, cs, kind.listing, func(page []json.RawMessage) { list = append(list, page...) })
		switch status.Code(err) {
		case codes.OK:
			*kind.to(all) = v.featuresIn(kind, list)
			continue
		case codes.Internal, codes.InvalidArgument, codes.NotFound, codes.Unimplemented: // of this list alone
		default:
			return nil, err
		}
		v.all.Log.Warn("a list of an MCP server was left out", "capability", v.fleet.Capability, "backend", v.url,
			"list", kind.method, "error", err)
		var refused *wrongList
		last := v.offers.Load()
		if last != nil && status.Code(err) != codes.Unimplemented && !errors.As(err, &refused) {
			*kind.to(all) = *kind.to(last)
		}
	}
	v.offers.Store(all)
	return plainjson.Marshal(all)
}

// featuresIn returns the features of a list. One that clients cannot use does not affect the others.
func (v *server) featuresIn(kind featureListing, list []json.RawMessage) (all []*manifest.Feature) {
	seen := map[string]bool{}
	for _, raw := range list {
		f := new(manifest.Feature)
		err := strictjson.Unmarshal(raw, f)
		key := kind.key(f)
		switch {
		case err != nil:
			err = errMember
		case seen[key]:
			err = errors.New("the server lists it twice")
		case f.Template != "" && len(all) == manifest.MaxTemplates:
			err = fmt.Errorf("the server lists more than %d templates", manifest.MaxTemplates)
		default:
			err = f.Check(key)
		}
		if err != nil {
			v.all.Log.Warn("a feature of an MCP server was left out", "capability", v.fleet.Capability, "backend",
				v.url, "list", kind.method, "name", untrusted.Clip(key, maxName), "error", err)
			continue
		}
		seen[key] = true
		all = append(all, f)
	}
	return all
}
