package mcp

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/capgate/capgate/gateway/frontdoor/request"
	"github.com/capgate/capgate/internal/toolschema"
)

const (
	pageTools = 500     // tools per page of tools/list
	pageBytes = 1 << 20 // bytes of descriptions and schemas after which a page ends
)

// listTTL is the time for which clients may cache a list.
const listTTL = 10 * time.Second

// cacheable marks a list as private. The result of server/discover is public.
func cacheable(_ context.Context, req sdk.Request, c *sdk.Cacheable) {
	if _, ok := req.(*sdk.DiscoverRequest); ok {
		c.TTLMs, c.CacheScope = int(time.Hour/time.Millisecond), "public"
	}
}

// list serves tools/list with a page of the tools that the caller may use. Tools are in the order of capabilities, and
// within each in the order of its author.
func (h *Handler) list(ctx context.Context, req *sdk.ListToolsRequest) (sdk.Result, error) {
	r := exchangeOf(ctx).r
	if h.searches(r) {
		return listOf(searchList(), ""), nil
	}
	var after place
	if req.Params != nil && req.Params.Cursor != "" {
		var ok bool
		if after, ok = readCursor(req.Params.Cursor); !ok {
			return nil, refused(http.StatusBadRequest, jsonrpc.CodeInvalidParams, "LIST_INVALID",
				"cursor was not issued by this server")
		}
	}
	x := exchangeOf(ctx)
	p := &page{ctx: ctx, h: h, after: after, tools: []*listedTool{}, stateless: x.read.isStateless(),
		apps: x.showsApps()}
	if err := h.cfg.Catalog.Tools(ctx, after.capability, p.add); err != nil {
		return nil, err
	}
	if err := request.HoldResult(ctx, listCopies*p.bytes); err != nil {
		return nil, err
	}
	return listOf(p.tools, p.next), nil
}

// listCopies is the number of copies of a list's texts while the SDK writes it.
const listCopies = 4

// toolList is the result of tools/list. The SDK's type has no room for unknown fields of tools.
type toolList struct {
	sdk.ListToolsResult
	Tools []*listedTool `json:"tools"`
}

func listOf(tools []*listedTool, next string) *toolList {
	result := &toolList{sdk.ListToolsResult{NextCursor: next}, tools}
	result.TTLMs, result.CacheScope = int(listTTL/time.Millisecond), "private"
	return result
}

// page is a page of tools.
type page struct {
	ctx   context.Context //nolint:containedctx // of the request
	h     *Handler
	after place
	tools []*listedTool
	last  place
	bytes int
	next  string // cursor of the next page; empty means this is the last page

	stateless bool // for a client of a revision without sessions
	apps      bool // for a client that shows apps, and hides their tools from its model
}

// add adds the tools of a capability. It returns false if the page is full.
func (p *page) add(capability string, tools []Tool) bool {
	for i := range tools[p.begin(capability, tools):] {
		t := &tools[p.begin(capability, tools)+i]
		name, ok := p.h.nameOf(p.ctx, capability, t.Name)
		if !ok || !p.apps && !t.Extras.ForModels() {
			continue
		}
		if len(p.tools) == pageTools || p.bytes > pageBytes {
			p.next = p.last.cursor()
			return false
		}
		p.bytes += len(t.Description) + len(t.InputSchema) + len(t.OutputSchema.JSON()) + t.Extras.Size()
		p.tools, p.last = append(p.tools, toolOf(capability, name, t, p.stateless)), place{capability, t.Name}
	}
	return true
}

// begin returns the index of the first tool of a capability that is not on an earlier page. If the last tool of that
// page no longer exists, the capability starts again.
func (p *page) begin(capability string, tools []Tool) int {
	if capability == p.after.capability {
		for i := range tools {
			if tools[i].Name == p.after.tool {
				return i + 1
			}
		}
	}
	return 0
}

// place is the last tool of a page.
type place struct{ capability, tool string }

// cursor returns the place in the form for clients. It is not secret: a client that modifies it gets another page of
// its own list.
func (p place) cursor() string {
	return base64.RawURLEncoding.EncodeToString([]byte(p.capability + "\n" + p.tool))
}

func readCursor(cursor string) (p place, ok bool) {
	text, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil || len(text) > 2*maxName {
		return p, false
	}
	p.capability, p.tool, ok = strings.Cut(string(text), "\n")
	return p, ok
}

// anyObject is the schema of a tool without one, which MCP requires.
const anyObject = `{"type":"object"}`

// promises reports whether the schema of a tool's results is sent to clients.
func promises(output *toolschema.Schema, stateless bool) bool {
	return output != nil && (stateless || output.IsOfObject())
}

// objectSchema returns a schema with the type object at the top, which MCP requires. Arguments are objects anyway.
func objectSchema(schema []byte) json.RawMessage {
	var top map[string]json.RawMessage
	if len(schema) == 0 || json.Unmarshal(schema, &top) != nil || top == nil { // a schema of true allows any arguments
		return json.RawMessage(anyObject)
	}
	if string(top["type"]) == `"object"` {
		return schema
	}
	top["type"] = json.RawMessage(`"object"`)
	text, err := json.Marshal(top)
	if err != nil {
		return json.RawMessage(anyObject)
	}
	return text
}
