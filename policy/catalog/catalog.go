package catalog

import (
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/credentials"
	"github.com/capgate/capgate/internal/lib/changefeed"
	"github.com/capgate/capgate/internal/manifest"
	"github.com/capgate/capgate/internal/toolschema"
	"github.com/capgate/capgate/policy"
)

// Declaration holds the declarations of a fleet and its manifest about a capability's tools. It is immutable and
// comparable. Its fields with tags are a part of the configuration file.
type Declaration struct {
	// tool answers each call by itself; environment keeps state between the calls of a session.
	Class call.Class `yaml:"class" default:"tool"`
	// Policy for tools without a rule or a recommendation of the manifest.
	Policy call.Verdict `yaml:"policy" default:"block"`
	// true: the arguments of each call are checked against the input_schema of its tool, before it goes to a backend;
	// needs a manifest.
	Validate bool `yaml:"validate_arguments" default:"false"`
	// true: calls of a tool whose description or schema has changed need approval, if they would be allowed, until an
	// operator accepts it.
	Unguarded bool `yaml:"drift_guard" default:"true" true:"false"`
	// Calls of the discovery tool of a manifest with tool_source: dynamic. One replica makes them, also when the fleet
	// becomes healthy.
	Discovery Discovery `yaml:"discovery"`

	Manifest       *manifest.Manifest `yaml:"-"` // nil: the tools are unknown
	ToolsElsewhere string             `yaml:"-"` // tools of other manifests of live backends, one a line: not removed
	OnlyStricter   bool               `yaml:"-"` // recommendations that are weaker than Policy do not count
	Credentials    *credentials.Names `yaml:"-"` // that calls may bring; nil: anything
}

// Discovery are the calls of a capability's discovery tool.
type Discovery struct {
	// Interval of discoveries.
	Interval time.Duration `yaml:"interval" min:"1s" max:"24h" default:"5m"`
	// Timeout of one call; default 10 s.
	Timeout time.Duration `yaml:"-"`
}

func (a *Declaration) dynamic() bool  { return a.Manifest != nil && a.Manifest.Dynamic }
func (a *Declaration) features() bool { return a.Manifest != nil && a.Manifest.Features }
func (a *Declaration) static() bool   { return a.Manifest != nil && !a.Manifest.Dynamic }

// Tool is one tool of a capability. It is immutable.
type Tool struct {
	manifest.Tool
	Hash    toolschema.Hash // of its description and schema
	Drifted bool            // it differs from the accepted one
}

// Options of a Catalog. The zero value is usable.
type Options struct {
	Store Store         // shared by replicas; nil: none, and removed tools keep their rules
	Rules Rules         // of tools; nil: none
	Log   *slog.Logger  // default: discard
	Round time.Duration // interval of the polls of the store; default 1 s
	// Changed is called after the tools of a capability may have changed; "": those of any. It must not block; nil:
	// nothing is called.
	Changed func(capability string)
}

// Catalog is a policy.Source. It is safe for concurrent use.
type Catalog struct {
	opts             Options
	snapshot         atomic.Pointer[map[string]*capability]
	ids              atomic.Pointer[[]string] // its ids, sorted
	wake             chan struct{}            // Run has work
	position         changefeed.Position      // up to which the store was read; used by Run, and by Read before it
	storeUnavailable bool                     // the last poll failed; used likewise

	changes   atomic.Pointer[map[string]map[string]change] // of drifted tools, by capability and tool; see KeepVersions
	published chan struct{}                                // KeepVersions has work

	mu      sync.Mutex
	entries map[string]*entry
}

// New returns an empty Catalog.
func New(o Options) *Catalog {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Round == 0 {
		o.Round = time.Second
	}
	if o.Changed == nil {
		o.Changed = func(string) {}
	}
	c := &Catalog{opts: o, wake: make(chan struct{}, 1), published: make(chan struct{}, 1),
		entries: map[string]*entry{}}
	c.snapshot.Store(&map[string]*capability{})
	c.ids.Store(new([]string))
	return c
}

// capability is the snapshot of one capability.
type capability struct {
	declared Declaration
	known    bool
	tools    []Tool           // in the declared order
	index    map[string]*Tool // the same, by name
}

func (c *Catalog) capability(id string) *capability { return (*c.snapshot.Load())[id] }

// Capabilities returns all ids, sorted. The slice is immutable.
func (c *Catalog) Capabilities() []string { return *c.ids.Load() }

// Class returns a capability's class.
func (c *Catalog) Class(capability string) call.Class {
	if of := c.capability(capability); of != nil {
		return of.declared.Class
	}
	return call.Tool
}

// Describe returns a known tool.
func (c *Catalog) Describe(capability, tool string) (Tool, bool) {
	if of := c.capability(capability); of != nil {
		if t := of.index[tool]; t != nil {
			return *t, true
		}
	}
	return Tool{}, false
}

// Tools returns the known tools of a capability in the declared order. The slice is immutable.
func (c *Catalog) Tools(capability string) (tools []Tool, known bool) {
	if of := c.capability(capability); of != nil {
		return of.tools, of.known
	}
	return nil, false
}

// Visit calls visit with the known tools of a capability until it returns false. known is false for a capability whose
// tools are not known, and features reports whether it may also have prompts and resources.
func (c *Catalog) Visit(capability string, visit func(*manifest.Tool) bool) (known, features bool) {
	of := c.capability(capability)
	if of == nil {
		return false, false
	}
	for i := range of.tools {
		if !visit(&of.tools[i].Tool) {
			break
		}
	}
	return of.known, of.declared.features()
}

// Tool implements policy.Source.
func (c *Catalog) Tool(capability, tool string) (verdict call.Verdict, level policy.Level, state policy.ToolState) {
	of := c.capability(capability)
	if of == nil {
		return call.Block, policy.Default, policy.Accepted
	}
	t := of.index[tool]
	switch {
	case t == nil && of.lists(tool):
		if of.recommends(call.Allow) {
			return call.Allow, policy.Recommended, policy.Accepted
		}
	case t == nil && of.declared.features() && manifest.IsFeature(tool):
	case t == nil && of.declared.dynamic() && (of.known || tool == manifest.ListFeatures):
		return call.Block, policy.Default, policy.Unlisted
	case t != nil && t.Drifted:
		state = policy.Drifted
	}
	if t != nil && t.Recommends {
		return t.Recommended, policy.Recommended, state
	}
	if of.declared.Policy == call.Block {
		return call.Block, policy.Default, state
	}
	return of.declared.Policy, policy.Fleet, state
}

// recommends reports whether the recommendation of a verdict counts.
func (of *capability) recommends(v call.Verdict) bool {
	return !of.declared.OnlyStricter || v <= of.declared.Policy
}

// Lists reports whether a tool is the one that lists the others of a capability.
func (c *Catalog) Lists(capability, tool string) bool {
	of := c.capability(capability)
	return of != nil && of.index[tool] == nil && of.lists(tool)
}

// lists reports whether a tool is the one that lists the others. Its manifest declares it as that, and orchestrators
// call it like the gateway does: they get what their caller may use.
func (of *capability) lists(tool string) bool {
	return of.declared.dynamic() && tool == of.declared.Manifest.DiscoveryTool
}

// DependsOnTool implements policy.Source.
func (c *Catalog) DependsOnTool(capability string) bool {
	of := c.capability(capability)
	// Approvals depend on the arguments, too.
	return of != nil && (len(of.tools) > 0 || of.declared.dynamic() && (of.known || of.declared.Policy != call.Allow) ||
		of.declared.Policy == call.Ask || of.declared.Credentials != nil || of.declared.Validate)
}

// Schema implements policy.Source.
func (c *Catalog) Schema(capability, tool string) (s *toolschema.Schema, checked bool) {
	of := c.capability(capability)
	if of == nil || !of.declared.Validate || of.lists(tool) || of.declared.features() && manifest.IsFeature(tool) {
		return nil, false
	}
	if t := of.index[tool]; t != nil {
		return t.Schema, true
	}
	return nil, true
}

// Credentials implements policy.Source.
func (c *Catalog) Credentials(capability string) *credentials.Names {
	if of := c.capability(capability); of != nil {
		return of.declared.Credentials
	}
	return nil
}

var _ policy.Source = (*Catalog)(nil)
