// Package tools connects the MCP front door with the tools and tasks of callers, and with changes of both.
package tools

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/capgate/capgate/gateway/admin/watch"
	"github.com/capgate/capgate/gateway/builtin/listing"
	"github.com/capgate/capgate/gateway/filter/scope"
	"github.com/capgate/capgate/gateway/frontdoor/mcp"
	"github.com/capgate/capgate/gateway/frontdoor/web"
	"github.com/capgate/capgate/gateway/localgrpc"
	"github.com/capgate/capgate/gateway/questions"
	"github.com/capgate/capgate/gateway/status"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/idempotency"
	"github.com/capgate/capgate/internal/mcpsession"
	"github.com/capgate/capgate/internal/telemetry"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/internal/toolschema"
	"github.com/capgate/capgate/internal/toolset"
	"github.com/capgate/capgate/policy/catalog"
	"github.com/capgate/capgate/router"
)

// Config configures the MCP front door of a gateway.
type Config struct {
	Usable Usable // lists the tools of callers; nil disables MCP
	// Describe returns a tool, from memory; optional. It is Catalog.Describe.
	Describe func(capability, tool string) (catalog.Tool, bool)
	// Absent reports whether a tool is not among the known ones of its capability, and no rule of the caller names it;
	// optional. It is listing.Server.Absent.
	Absent  func(ctx context.Context, caller *tenant.Identity, capability, tool string) bool
	Version string // of the program
	// Keys returns the keys of aead.KeyBytes that the replicas share, for data that clients keep for the gateway;
	// optional.
	Keys func(ctx context.Context) [][]byte
	// Cancel makes the other replicas call CancelMCP. It may wait until ctx ends. An error means that no replica may
	// have received the request. nil means no other replica.
	Cancel func(ctx context.Context, request string) error
	// Questions receives the calls whose clients answer questions of MCP servers, or want their log messages; nil means
	// that they do neither.
	Questions *questions.Calls
	Levels    *mcpsession.Sessions // levels of log messages of sessions; nil means that clients set none
	Settings  mcp.Settings
	Beat      time.Duration // interval of heartbeats of slow requests; default 10 s
	Stall     time.Duration // maximum time for which a client may send or read nothing; default 1 min
	// Approvals withdraws approvals of tasks. If nil, or without a store of responses, there are no tasks.
	Approvals TaskApprovals
	Changes   *ViewChanges // changes of callers' tools; nil means they do not change
	// Scopes returns the scopes for MCP that clients may request from each of the issuers; optional.
	Scopes func(issuers []string) []string
	// Follow returns a context that ends when check returns false, as session.Manager.Follow does, and StillValid
	// checks a caller's credential. If nil, streams of changes outlast their credentials.
	Follow     func(ctx context.Context, check func(context.Context) bool) (context.Context, context.CancelFunc)
	StillValid func(context.Context, *tenant.Identity) bool
}

// Usable lists the tools that callers may use. *listing.Server implements it.
type Usable interface {
	Usable(ctx context.Context, caller tenant.Identity, from string,
		visit func(capability string, tools []listing.UsableTool) bool) error
	May(ctx context.Context, caller *tenant.Identity, capability, tool string) bool
	// Usability is May that returns an error, as a gRPC status, if the rules are unavailable.
	Usability(ctx context.Context, caller *tenant.Identity, capability, tool string) (bool, error)
	Undiscovered(capability string) *call.Refusal // nil: the tools of the capability are known
	Fingerprint(ctx context.Context, caller *tenant.Identity,
		hints func(capability, tool string) byte) ([sha256.Size]byte,
		error)
}

// Door is the MCP front door. It implements web.Door.
type Door struct {
	*mcp.Handler // nil means no MCP
	tools        toolsOf
	stop         context.CancelFunc // ends streams of changes
	naming       sync.Mutex
	named        named // guarded by naming
}

// Cancel ends a request that was cancelled at another replica, if this one serves it.
func (d *Door) Cancel(request string) {
	if d.Handler != nil {
		d.Cancelled(request)
	}
}

// Leave ends the streams of changes, and rejects new ones. d may be nil.
func (d *Door) Leave() {
	if d != nil && d.Handler != nil {
		d.stop()
	}
}

// Close is Leave that waits until what the door has started ends.
func (d *Door) Close() {
	if d.Leave(); d != nil && d.Handler != nil {
		d.tools.features.close()
	}
}

// Match implements web.Door.
func (d *Door) Match(r *http.Request) bool { return d.Handler != nil && d.Handler.Match(r) }

// ServeHTTP serves one request. Its calls have its revision.
func (d *Door) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	web.Of(r).Client.Revision = mcp.RevisionOf(r)
	d.Handler.ServeHTTP(w, r)
}

// Served reports whether there is an MCP server.
func (d *Door) Served() bool { return d.Handler != nil }

// Protocol implements web.Door.
func (*Door) Protocol(*http.Request) call.Protocol { return call.MCP }

// Deps holds the parts of the gateway that a Door uses. All fields but Stored are required.
type Deps struct {
	Conn   *localgrpc.Conn
	Router *router.Router
	// Features lists the features of an MCP server of a fleet, see manifest.ListFeatures.
	Features func(ctx context.Context, capability string) ([]byte, error)
	Stored   *idempotency.Service // responses for idempotency keys; nil means there are no tasks
	Metrics  *telemetry.Metrics
}

// New returns the front door.
func New(cfg Config, deps Deps) (*Door, error) {
	if cfg.Usable == nil {
		return &Door{}, nil
	}
	leaving, stop := context.WithCancel(context.Background())
	tools := toolsOf{Config: cfg, router: deps.Router, features: newFeatures(leaving, deps.Router, deps.Features),
		watchers: watch.NewSlots(leaving, "mcp watchers", maxWatchers)}
	tools.views = newViews(leaving, cfg.Changes, tools.sums)
	tools.features.changes = tools.views.changes
	tools.views.changes.list(tools.features)
	context.AfterFunc(leaving, tools.views.notify)
	h := mcp.New(mcp.Config{
		Conn: deps.Conn, Unary: deps.Conn.Unary, Catalog: tools, Features: offersOf{tools}, Absent: tools.absent,
		Scopes: cfg.Scopes, Version: cfg.Version, Beat: cfg.Beat, Stall: cfg.Stall, Cancel: cfg.Cancel, Keys: cfg.Keys,
		Tasks: newTasks(cfg.Approvals, deps.Stored), Questions: cfg.Questions, Levels: cfg.Levels,
		Session: func(r *http.Request, id string) mcpsession.Key {
			of := &web.Of(r).Identity
			return mcpsession.Key{Tenant: of.Tenant, UID: of.Settings.UID(), ID: id, Owner: ownerOf(of)}
		},
		Outlive: func(r *http.Request, gone func()) func(error) { return web.Of(r).Outlive(gone) },
		Unix:    func(r *http.Request) bool { return web.Of(r).Client.Unix },
		Tenant:  func(r *http.Request) string { return web.Of(r).Identity.Tenant },
		Member: func(r *http.Request) toolset.Caller {
			of := &web.Of(r).Identity
			return toolset.Caller{Tenant: of.Tenant, UID: of.Settings.UID(), Groups: of.Groups()}
		},
		Caller: func(r *http.Request) string {
			identity := &web.Of(r).Identity
			return strings.Join([]string{identity.Tenant, identity.Key, identity.User, identity.Agent}, "\x00")
		},
		Owner:        func(r *http.Request) string { return web.Of(r).Owner() },
		Authenticate: func(r *http.Request) error { return web.Of(r).Authenticate(r.Context()) },
		Invokes:      func(r *http.Request) error { return errorOf(callable(&web.Of(r).Identity)) },
		Lists:        func(r *http.Request) error { return errorOf(listable(&web.Of(r).Identity)) },
	})
	d := &Door{Handler: h, tools: tools, stop: stop}
	d.Set(cfg.Settings)
	if err := deps.Metrics.Add(h); err != nil {
		stop()
		return nil, fmt.Errorf("metrics of mcp: %w", err)
	}
	return d, nil
}

// toolsOf implements mcp.Catalog and mcp.View.
type toolsOf struct {
	Config
	router   *router.Router
	features *features
	watchers *watch.Slots
	views    *views
}

// ownerOf returns the owner of a caller's sessions: the user, or the key of a caller without one.
func ownerOf(caller *tenant.Identity) string {
	if caller.User != "" {
		return "user " + caller.User
	}
	return "key " + caller.Key
}

// listable returns the refusal of a caller that may not list tools, or nil.
func listable(caller *tenant.Identity) *call.Refusal {
	switch {
	case caller.Only != nil:
		return tenant.RefuseSignature()
	case !caller.Scopes.Any(tenant.Read):
		return scope.RejectedReading
	}
	return nil
}

// callable returns the refusal of a caller that may not call tools, or nil.
func callable(caller *tenant.Identity) *call.Refusal {
	switch {
	case caller.Only != nil:
		return tenant.RefuseSignature()
	case !caller.Scopes.Any(tenant.Invoke):
		return scope.RejectedInvoking
	}
	return nil
}

// errorOf returns a refusal as a gRPC status; nil means none.
func errorOf(refusal *call.Refusal) error {
	if refusal == nil {
		return nil
	}
	return status.Of(refusal, call.NotSent).Err()
}

// sums returns digests of the lists of a caller, in the form for clients.
func (t toolsOf) sums(ctx context.Context, caller *tenant.Identity) (all listSums, err error) {
	if all.tools, err = t.fingerprint(ctx, caller); err == nil {
		all.prompts, all.resources, err = offersOf{t}.fingerprints(ctx, caller)
	}
	return all, err
}

// fingerprint returns a digest of the tools of a caller, in the form for clients.
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

// maxWatchers is the maximum number of concurrent streams of changes, of all tenants.
const maxWatchers = 2048

// Tools implements mcp.Catalog.
func (t toolsOf) Tools(ctx context.Context, from string, visit func(string, []mcp.Tool) bool) error {
	caller := web.From(ctx).Identity
	if refusal := listable(&caller); refusal != nil {
		return status.Answer(refusal).Err()
	}
	table := t.router.Table()
	return t.Usable.Usable(ctx, caller, from, func(capability string, usable []listing.UsableTool) bool {
		fleet, tools := table.Fleet(capability), make([]mcp.Tool, len(usable))
		for i := range usable {
			u := &usable[i]
			tools[i] = mcp.Tool{Name: u.Name, Description: u.Description, Extras: u.Extras,
				Idempotent: fleet != nil && fleet.Idempotent(call.Invoke, u.Name), ReadOnly: fleet.EventSource(u.Name)}
			if u.Schema != nil {
				tools[i].InputSchema = u.Schema.JSON()
			}
			tools[i].OutputSchema = u.Output
		}
		return visit(capability, tools)
	})
}

// Sees implements mcp.Catalog.
func (t toolsOf) Sees(ctx context.Context, capability string) bool {
	return web.From(ctx).Identity.Sees(capability)
}

// Has implements mcp.Catalog.
func (t toolsOf) Has(ctx context.Context, capability, tool string) bool {
	caller := &web.From(ctx).Identity
	return t.Known(capability, tool) && caller.Sees(capability) && t.Usable.May(ctx, caller, capability, tool)
}

// absent implements mcp.Config.Absent.
func (t toolsOf) absent(ctx context.Context, capability, tool string) bool {
	caller := &web.From(ctx).Identity
	return t.Absent != nil && !t.Known(capability, tool) && caller.Sees(capability) &&
		t.Absent(ctx, caller, capability, tool)
}

// Undiscovered implements mcp.Catalog.
func (t toolsOf) Undiscovered(ctx context.Context, capability string) error {
	refusal := t.Usable.Undiscovered(capability)
	if caller := web.From(ctx).Identity; refusal == nil || !caller.Sees(capability) ||
		t.router.Table().Fleet(capability) == nil {
		return nil
	}
	return status.Answer(refusal).Err()
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
	if caller := web.From(ctx).Identity; t.Describe == nil || !caller.Sees(capability) {
		return nil
	}
	of, _ := t.Describe(capability, tool)
	if of.Schema == nil {
		return nil
	}
	return of.Schema.JSON()
}

// Hash implements mcp.Catalog.
func (t toolsOf) Hash(capability, tool string) (hash toolschema.Hash, known bool) {
	if t.Describe == nil {
		return hash, false
	}
	of, known := t.Describe(capability, tool)
	return of.Hash, known
}

// Results implements mcp.Catalog.
func (t toolsOf) Results(capability, tool string) (r mcp.Results) {
	fleet := t.router.Table().Fleet(capability)
	if fleet == nil {
		return r
	}
	traits := fleet.Protocol().Traits()
	r.Relayed, r.Listed, r.Statuses = traits.Relayed, traits.Listed, traits.Statuses
	if !r.Listed && t.Describe != nil { // lists are built according to the schema
		of, _ := t.Describe(capability, tool)
		r.Schema = of.Output
	}
	return r
}
