package sources

import (
	"context"
	"log/slog"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/metric"
	"github.com/capgate/capgate/internal/registry"
)

// Source is a source of backends.
type Source struct {
	Name registry.Source // of its members
	// Finds reports whether the source finds backends of a fleet by the fleet's own field. nil: it has no such field.
	Finds func(*Fields) bool
	// Policy returns the policy of capabilities that have no fleet, and whether there may be any from this source. nil:
	// there are none.
	Policy func(*Sections) (policy call.Verdict, announces bool)
	// OnlyStricter: of the recommendations of manifests that backends bring, only those that are stricter than the
	// fleet's policy count.
	OnlyStricter bool
	// Open opens the source. It starts nothing.
	Open func(*Settings, Options) Opened
	// Once looks for backends once. nil: the source is opened for it.
	Once func(context.Context, *Settings) ([]registry.Member, []error)
}

// Settings is the part of a configuration that sources use.
type Settings struct {
	*Sections
	Fleets  []Fleet
	Tenants bool // callers need credentials
}

// Fleet is the part of a fleet that sources use.
type Fleet struct {
	*Fields
	Capability string
	Names      []registry.Target // its dns:/// backends
	Weight     int               // of a backend
	Web        string            // protocol of a fleet whose backends are URLs; "": host:port
	Secure     bool              // backends are reached over TLS
}

// Options holds the dependencies of sources.
type Options struct {
	// Registry has the names and registrations.
	Registry *registry.Registry
	// Changed is called when the Members of a source have changed. It must not block.
	Changed func()
	// ReadManifest parses the text of a manifest. nil: no manifest is valid.
	ReadManifest func(text string) (registry.Document, *call.Refusal)
	Log          *slog.Logger // nil: discarded
}

// Finder finds backends.
type Finder interface {
	metric.Source
	// Run follows the source until its context ends. It returns after all its goroutines, and is called once.
	Run(context.Context)
	// Await returns when Members has a first result for all settings. The error is that of its context.
	Await(context.Context) error
	// Members returns the backends, as registry.Merge does. They must not be changed.
	Members() []registry.Member
}

// Opened is a source of a process. Functions that are nil have nothing to do.
type Opened struct {
	Finder
	// Try replaces the settings. Until Commit, the source goes on following what the former ones need.
	Try    func(*Settings)
	Commit func()
	// Manifest returns a manifest that members have, or nil.
	Manifest func(registry.Sum) registry.Document
	// Warnings returns what operators should know.
	Warnings func() []string
	Close    func()
}

func (o *Opened) commit() {
	if o.Commit != nil {
		o.Commit()
	}
}

func (o *Opened) warnings() []string {
	if o.Warnings == nil {
		return nil
	}
	return o.Warnings()
}

func (o *Opened) close() {
	if o.Close != nil {
		o.Close()
	}
}
