package catalog

import (
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/credentials"
	"github.com/capgate/capgate/internal/manifest"
	"github.com/capgate/capgate/internal/toolschema"
	"github.com/capgate/capgate/policy"
)

// Author is what a fleet and its manifest say of a capability's tools. It is immutable, and
// two may be compared.
type Author struct {
	Class     call.Class
	Manifest  *manifest.Manifest // nil: which tools there are is not known
	Fleet     call.Verdict       // of tools of which nothing is recommended; Block says nothing, which blocks
	Validate  bool               // arguments are to be checked against the tools' schemas
	Unguarded bool               // a tool that has changed is taken as it was
	Interval  time.Duration      // from one discovery to the next; default 5 min
	Timeout   time.Duration      // of one question to the discovery tool; default 10 s
	Elsewhere string             // tools that other manifests of live backends have, one a line: they are not gone

	Credentials *credentials.Names // that calls may bring; nil: they may bring anything
}

func (a *Author) dynamic() bool { return a.Manifest != nil && a.Manifest.Dynamic }
func (a *Author) static() bool  { return a.Manifest != nil && !a.Manifest.Dynamic }

// Tool is one tool of a capability. It is immutable.
type Tool struct {
	manifest.Tool
	Hash    toolschema.Hash // of its description and schema
	Drifted bool            // it is not what was accepted
}

// Options of a Catalog. The zero value is usable.
type Options struct {
	Store Store         // what replicas share; nil: nothing, and tools that are gone keep their rules
	Rules Rules         // of tools; nil: there are none
	Log   *slog.Logger  // default: discard
	Round time.Duration // how often the store is asked what has changed; default 1 s
}

// Catalog is a policy.Source. It is safe for concurrent use.
type Catalog struct {
	opts  Options
	now   atomic.Pointer[map[string]*capability]
	ids   atomic.Pointer[[]string] // of the same, sorted
	wake  chan struct{}            // Run has something to do
	since Mark                     // how much of the store is known; Run's, and Read's before it
	away  bool                     // the last round failed; the same

	mu      sync.Mutex
	entries map[string]*entry
}

// New returns a Catalog that knows nothing yet.
func New(o Options) *Catalog {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Round == 0 {
		o.Round = time.Second
	}
	c := &Catalog{opts: o, wake: make(chan struct{}, 1), entries: map[string]*entry{}}
	c.now.Store(&map[string]*capability{})
	c.ids.Store(new([]string))
	return c
}

// capability is what is known of one, in a snapshot.
type capability struct {
	author Author
	known  bool
	tools  []Tool           // in the author's order
	index  map[string]*Tool // the same, by name
}

func (c *Catalog) capability(id string) *capability { return (*c.now.Load())[id] }

// Capabilities are the ids of all, sorted. The slice must not be changed.
func (c *Catalog) Capabilities() []string { return *c.ids.Load() }

// Class is a capability's.
func (c *Catalog) Class(capability string) call.Class {
	if of := c.capability(capability); of != nil {
		return of.author.Class
	}
	return call.Tool
}

// Describe is what is known of a tool.
func (c *Catalog) Describe(capability, tool string) (Tool, bool) {
	if of := c.capability(capability); of != nil {
		if t := of.index[tool]; t != nil {
			return *t, true
		}
	}
	return Tool{}, false
}

// Tools are those of a capability, in the author's order, if they are known. The slice must
// not be changed.
func (c *Catalog) Tools(capability string) (tools []Tool, known bool) {
	if of := c.capability(capability); of != nil {
		return of.tools, of.known
	}
	return nil, false
}

// Tool implements policy.Source.
func (c *Catalog) Tool(capability, tool string) (verdict call.Verdict, level policy.Level, state policy.ToolState) {
	of := c.capability(capability)
	if of == nil {
		return call.Block, policy.Nobody, policy.Accepted
	}
	t := of.index[tool]
	switch {
	case t == nil && of.known && of.author.dynamic():
		return call.Block, policy.Nobody, policy.Unlisted
	case t != nil && t.Drifted:
		state = policy.Drifted
	}
	if t != nil && t.Recommends {
		return t.Recommended, policy.Recommended, state
	}
	if of.author.Fleet == call.Block {
		return call.Block, policy.Nobody, state
	}
	return of.author.Fleet, policy.Fleet, state
}

// Heeds implements policy.Source.
func (c *Catalog) Heeds(capability string) bool {
	of := c.capability(capability)
	// A person is asked about arguments, too.
	return of != nil && (len(of.tools) > 0 || of.known && of.author.dynamic() || of.author.Fleet == call.Ask || of.author.Credentials != nil || of.author.Validate)
}

// Schema implements policy.Source.
func (c *Catalog) Schema(capability, tool string) (s *toolschema.Schema, checked bool) {
	of := c.capability(capability)
	if of == nil || !of.author.Validate {
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
		return of.author.Credentials
	}
	return nil
}

var _ policy.Source = (*Catalog)(nil)
