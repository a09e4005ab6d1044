package gateway

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"sync/atomic"
	"time"

	"github.com/capgate/capgate/gateway/admin/watch"
	"github.com/capgate/capgate/gateway/builtin/listing"
	"github.com/capgate/capgate/gateway/filter"
	"github.com/capgate/capgate/gateway/frontdoor/mcp"
	"github.com/capgate/capgate/gateway/localgrpc"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/policy/catalog"
	"github.com/capgate/capgate/router"
)

// MCP is the front door of the Model Context Protocol.
type MCP struct {
	Usable Usable // the tools of callers; nil: there is no MCP
	// Describe returns what is known of a tool, from memory. It is Catalog.Describe; nil: no tool is known.
	Describe func(capability, tool string) (catalog.Tool, bool)
	// Absent reports whether a tool is not among the known ones of its capability, and no rule of the caller names it.
	// It is listing.Server's; nil: the capability finds out.
	Absent  func(ctx context.Context, caller *tenant.Identity, capability, tool string) bool
	Version string // of the program
	// Keys returns the keys that replicas share, for what clients keep for the gateway; nil: clients keep nothing.
	Keys func(ctx context.Context) [][]byte
	// Cancel has the other replicas call CancelMCP; nil: there is no other one. It may wait until ctx ends.
	Cancel   func(ctx context.Context, request string)
	Settings mcp.Settings
	Beat     time.Duration // how often a client is told that its call waits for a person; default 10 s
	Stall    time.Duration // how long a client may send or read nothing while it should; default 1 min
	// Approvals are what tasks wait for; nil, or without a key for stored responses: there are no tasks.
	Approvals TaskApprovals
	Changes   *ViewChanges // of the tools of callers; nil: they do not change
	// Follow returns a context that ends when check returns false, as session.Manager.Follow does, and StillValid checks
	// a caller's credential; nil: streams of changes outlast their credentials.
	Follow     func(ctx context.Context, check func(context.Context) bool) (context.Context, context.CancelFunc)
	StillValid func(context.Context, *tenant.Identity) bool
}

// Usable lists the tools that callers may use. It is listing.Server's.
type Usable interface {
	Usable(ctx context.Context, caller tenant.Identity, from string,
		visit func(capability string, tools []listing.UsableTool) bool) error
	May(ctx context.Context, caller *tenant.Identity, capability, tool string) bool
	Fingerprint(ctx context.Context, caller *tenant.Identity, hints func(capability, tool string) byte) ([sha256.Size]byte,
		error)
}

// SetMCP changes the settings of MCP, from the next request on.
func (g *Gateway) SetMCP(s mcp.Settings) {
	if g.mcp != nil {
		g.mcp.set(s)
	}
}

// CancelMCP ends a request over MCP that was cancelled at another replica, if this one serves it.
func (g *Gateway) CancelMCP(request string) {
	if g.mcp != nil {
		g.mcp.Cancelled(request)
	}
}

// mcpDoor is the front door. nil: there is none.
type mcpDoor struct {
	*mcp.Handler
	tools toolsOf
	stop  context.CancelFunc // ends streams of changes
	names atomic.Pointer[mcp.Names]
}

// set changes the settings. Other names of tools are another list.
func (d *mcpDoor) set(s mcp.Settings) {
	d.Set(s)
	if before := d.names.Swap(s.Names); !reflect.DeepEqual(before, s.Names) {
		d.tools.views.renamed()
	}
}

// leave ends the streams of changes, and refuses others.
func (d *mcpDoor) leave() {
	if d != nil {
		d.stop()
	}
}

// newMCP returns the front door; nil where there is none.
func newMCP(inside *localgrpc.Conn, cfg *Config) (*mcpDoor, error) {
	if cfg.Doors.MCP.Usable == nil {
		return nil, nil //nolint:nilnil // there is none
	}
	of := &cfg.Doors.MCP
	leaving, stop := context.WithCancel(context.Background())
	tools := toolsOf{MCP: *of, router: cfg.Routing.Router, watchers: watch.NewSlots(leaving, "mcp watchers", maxMCPWatchers)}
	tools.views = newViews(of.Changes, tools.fingerprint)
	h := mcp.New(mcp.Config{
		Conn: inside, Unary: inside.Unary, Catalog: tools, Absent: tools.absent,
		Version: of.Version, Beat: of.Beat, Stall: of.Stall, Cancel: of.Cancel, Keys: of.Keys,
		Tasks:  newMCPTasks(cfg),
		Tenant: func(r *http.Request) string { return webRequestOf(r).Identity.Tenant },
		Caller: func(r *http.Request) string {
			who := &webRequestOf(r).Identity
			return strings.Join([]string{who.Tenant, who.Key, who.User, who.Agent}, "\x00")
		},
		Authenticate: func(r *http.Request) error {
			return webRequestOf(r).Authenticate(r.Context())
		},
	})
	d := &mcpDoor{Handler: h, tools: tools, stop: stop}
	d.set(of.Settings)
	if err := cfg.Observe.Metrics.Register(h.Metrics()); err != nil {
		stop()
		return nil, fmt.Errorf("metrics of mcp: %w", err)
	}
	return d, nil
}

// withMCP serves the paths of MCP by its own front door.
func withMCP(h *mcpDoor, next http.Handler) http.Handler {
	if h == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if h.Serves(r.URL.Path) {
			webRequestOf(r).client.MCP = true
			h.ServeHTTP(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// toolsOf is the tools of callers as the front door asks for them.
type toolsOf struct {
	MCP
	router   *router.Router
	watchers *watch.Slots
	views    *views
}

// listable returns why a caller may list no tools; nil: it may.
func listable(caller *tenant.Identity) *call.Refusal {
	switch {
	case caller.Only != nil:
		return tenant.RefuseSignature()
	case !caller.Scopes.Any(tenant.Read):
		return refusedListing
	}
	return nil
}

// fingerprint identifies the tools of a caller, as clients get them.
func (t toolsOf) fingerprint(ctx context.Context, caller *tenant.Identity) (sum [sha256.Size]byte, err error) {
	table := t.router.Table()
	return t.Usable.Fingerprint(ctx, caller, func(capability, tool string) (hints byte) {
		fleet := table.Fleet(capability)
		if fleet != nil && fleet.Idempotent(call.Invoke, tool) {
			hints |= 1
		}
		if fleet.EventSource(tool) {
			hints |= 2
		}
		return hints
	})
}

// maxMCPWatchers bounds the concurrent streams of changes, of all tenants.
const maxMCPWatchers = 2048

var refusedListing = filter.ScopeMissing(tenant.Read, "the credential is not one that may list what there is")

// Tools implements mcp.Catalog.
func (t toolsOf) Tools(ctx context.Context, from string, visit func(string, []mcp.Tool) bool) error {
	caller := ctx.Value(webRequestKey{}).(*webRequest).Identity
	if refusal := listable(&caller); refusal != nil {
		return GRPCStatus(refusal).Err()
	}
	table := t.router.Table()
	return t.Usable.Usable(ctx, caller, from, func(capability string, usable []listing.UsableTool) bool {
		fleet, tools := table.Fleet(capability), make([]mcp.Tool, len(usable))
		for i := range usable {
			u := &usable[i]
			tools[i] = mcp.Tool{Name: u.Name, Description: u.Description, Asks: u.Verdict == call.Ask,
				Idempotent: fleet != nil && fleet.Idempotent(call.Invoke, u.Name), ReadOnly: fleet.EventSource(u.Name)}
			if u.Schema != nil {
				tools[i].InputSchema = u.Schema.JSON()
			}
			tools[i].OutputSchema = u.Output
		}
		return visit(capability, tools)
	})
}

// Watch implements mcp.Catalog.
func (t toolsOf) Watch(ctx context.Context, changed func() error) error {
	caller := ctx.Value(webRequestKey{}).(*webRequest).Identity
	if refusal := listable(&caller); refusal != nil {
		return GRPCStatus(refusal).Err()
	}
	if t.Follow != nil {
		var cancel context.CancelFunc
		ctx, cancel = t.Follow(ctx, func(ctx context.Context) bool { return t.StillValid(ctx, &caller) })
		defer cancel()
	}
	begun := false
	err := t.watchers.Hold(ctx, caller.Tenant, func(ctx context.Context) error {
		begun = true
		return t.views.watch(ctx, &caller, changed)
	})
	var refusal *call.Refusal
	switch {
	case !errors.As(err, &refusal):
		return err
	case begun: // the gateway stops
		return nil
	}
	return GRPCStatus(refusal).Err()
}

// Sees implements mcp.Catalog.
func (t toolsOf) Sees(ctx context.Context, capability string) bool {
	return ctx.Value(webRequestKey{}).(*webRequest).Identity.Sees(capability)
}

// Has implements mcp.Catalog.
func (t toolsOf) Has(ctx context.Context, capability, tool string) bool {
	caller := &ctx.Value(webRequestKey{}).(*webRequest).Identity
	return t.Known(capability, tool) && caller.Sees(capability) && t.Usable.May(ctx, caller, capability, tool)
}

// absent implements mcp.Config.Absent.
func (t toolsOf) absent(ctx context.Context, capability, tool string) bool {
	caller := &ctx.Value(webRequestKey{}).(*webRequest).Identity
	return t.Absent != nil && !t.Known(capability, tool) && caller.Sees(capability) &&
		t.Absent(ctx, caller, capability, tool)
}

// Known implements mcp.Catalog.
func (t toolsOf) Known(capability, tool string) bool {
	if t.Describe == nil {
		return false
	}
	_, known := t.Describe(capability, tool)
	return known
}

// Schema implements mcp.Catalog.
func (t toolsOf) Schema(ctx context.Context, capability, tool string) []byte {
	if caller := ctx.Value(webRequestKey{}).(*webRequest).Identity; t.Describe == nil || !caller.Sees(capability) {
		return nil
	}
	of, _ := t.Describe(capability, tool)
	if of.Schema == nil {
		return nil
	}
	return of.Schema.JSON()
}

// Results implements mcp.Catalog.
func (t toolsOf) Results(capability, tool string) (r mcp.Results) {
	fleet := t.router.Table().Fleet(capability)
	if fleet == nil {
		return r
	}
	traits := fleet.Protocol().Traits()
	r.Relayed, r.Listed = traits.Relayed, traits.Listed
	if !r.Listed && t.Describe != nil { // lists are made as the schema says
		of, _ := t.Describe(capability, tool)
		r.Schema = of.Output
	}
	return r
}
