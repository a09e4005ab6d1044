package kubernetes

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/backoff"
	"github.com/capgate/capgate/internal/lib/kubeapi"
	"github.com/capgate/capgate/internal/lib/recovery"
	"github.com/capgate/capgate/internal/lib/signal"
	"github.com/capgate/capgate/internal/lib/tokenbucket"
	"github.com/capgate/capgate/internal/registry"
)

// Target is a Source of backends of a capability.
type Target struct {
	Capability string
	Source
	Protocol
	Weight  int          // of each backend
	Dialect call.Dialect // Auto: the fleet's

	created  time.Time    // of the Service that announces it
	selector Selector     // the parsed Selector
	manifest string       // of the annotation; "": none
	sum      registry.Sum // of the manifest
}

// Settings are the configuration. They may change (Set).
type Settings struct {
	Targets []Target
	Watch   Watch
	Rules   registry.Permissions // of addresses
}

// Options configure a Discovery. The zero value works.
type Options struct {
	// Changed is called when Members has changed. It must not block.
	Changed func()
	Log     *slog.Logger // nil: discarded
	// Namespace is that of Sources without one; "": they are an error.
	Namespace string
	// ReadManifest parses the text of a manifest. It may take seconds. nil: no manifest is valid.
	ReadManifest func(text string) (registry.Document, *call.Refusal)
	// Mirrors has the intervals of kubeapi.Options.
	Mirrors kubeapi.Options
}

// publishInterval is the least time between two publications, which batches the events of many slices.
const publishInterval = 10 * time.Millisecond

// Discovery has the backends that EndpointSlices name. Its methods are safe for concurrent use.
type Discovery struct {
	o       Options
	members atomic.Pointer[[]registry.Member]
	shown   atomic.Pointer[shown]
	dirty   chan struct{}
	restart chan struct{} // signals that mirrors must start

	mu       sync.Mutex
	settings *Settings
	tried    bool // former settings may come back, so their mirrors go on
	slices   following[endpointSlice]
	services following[service]
	texts    texts

	publishing sync.Mutex // guards what follows
	manifests  manifests
	found      map[foundKey]kept // by the last gather, with foundWith
	foundWith  *Settings
	lines      *tokenbucket.Bucket // of the log, for problems
}

// shown is the result of the last gather without its members. It is immutable.
type shown struct {
	problems  problems
	refused   int // Services without a place
	waiting   int // Services whose manifests have not been read
	manifests map[registry.Sum]registry.Document
}

// endpointSlices are the resource of all namespaces.
var endpointSlices = kubeapi.Resource{Group: "discovery.k8s.io", Version: "v1", Plural: "endpointslices"}

// New returns a Discovery, which is empty before Run. The caller closes the client after Run.
func New(c *kubeapi.Client, settings Settings, o Options) *Discovery {
	if o.Changed == nil {
		o.Changed = func() {}
	}
	if o.ReadManifest == nil {
		o.ReadManifest = func(string) (registry.Document, *call.Refusal) {
			return nil, &call.Refusal{Message: "not supported"}
		}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	d := &Discovery{o: o, dirty: make(chan struct{}, 1), restart: make(chan struct{}, 1),
		lines: tokenbucket.New(problemLines, problemsEvery)}
	mirrors := o.Mirrors
	mirrors.Log, mirrors.Changed = o.Log, func() { signal.Wake(d.dirty) }
	mirrors.Labels = true // for selectors
	d.slices = newFollowing(c, endpointSlices, sliceMeta, mirrors)
	d.texts, d.manifests.reader = newTexts(c, mirrors), newReader(c, &o, mirrors.Changed)
	mirrors.Annotations, mirrors.Metadata = annotation, true
	d.services = newFollowing(c, services, serviceMeta, mirrors)
	d.members.Store(new([]registry.Member))
	d.shown.Store(&shown{})
	d.Set(settings)
	return d
}

// Set replaces the settings. A namespace keeps its objects until they have been listed with the new settings.
func (d *Discovery) Set(s Settings) {
	d.Try(s)
	d.Commit()
}

// Commit ends what is followed only for settings before those in force.
func (d *Discovery) Commit() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.tried = false
	d.prune()
}

// prune ends the mirrors that are not needed. The caller holds d.mu.
func (d *Discovery) prune() {
	if !d.tried {
		d.slices.prune()
		d.services.prune()
		d.texts.prune()
	}
}

// Try replaces the settings as Set does, but goes on following what the former ones need, until Commit. So a Set with
// the former settings restores their members.
func (d *Discovery) Try(s Settings) {
	d.mu.Lock()
	defer d.mu.Unlock()
	s.Targets = slices.Clone(s.Targets)
	announced := s.Watch.namespaces(d.o.Namespace)
	namespaces := maps.Clone(announced)
	for i := range s.Targets {
		t := &s.Targets[i]
		t.selector, _ = ParseSelector(t.Selector) // the configuration was checked
		if t.Namespace = cmp.Or(t.Namespace, d.o.Namespace); t.Namespace != "" {
			namespaces[t.Namespace] = true
		}
	}
	d.settings, d.tried = &s, true
	d.slices.want(namespaces, "")
	d.services.want(announced, s.Watch.Selector)
	d.texts.want(s.Watch.Manifests, announced)
	signal.Wake(d.restart)
	signal.Wake(d.dirty)
}

// Run follows the slices until ctx ends. It returns after all its goroutines, and is called once.
func (d *Discovery) Run(ctx context.Context) {
	var mirrors sync.WaitGroup
	mirrors.Go(recovery.Loop(ctx, "kubernetes", func() { d.manifests.reader.run(ctx) }))
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-d.restart:
			d.mu.Lock()
			d.slices.start(ctx, &mirrors)
			d.services.start(ctx, &mirrors)
			d.texts.start(ctx, &mirrors)
			d.mu.Unlock()
		case <-d.dirty:
			d.publish()
			backoff.Sleep(ctx, publishInterval)
		}
	}
	mirrors.Wait()
}

// Await returns when the objects of all namespaces of the settings have been listed once, and their manifests read,
// successfully or not, and Members has the result. The error is that of ctx.
func (d *Discovery) Await(ctx context.Context) error {
	for _, m := range d.mirrors() {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-m.Listed():
		}
	}
	d.publish()
	if err := d.manifests.reader.await(ctx); err != nil {
		return err
	}
	d.publish()
	return nil
}

// mirrors returns the mirrors of the settings.
func (d *Discovery) mirrors() []mirror {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Concat(d.services.all(), d.texts.all(), d.slices.all())
}

// Members returns all backends, sorted by capability and address, each pair of these once. It must not be changed.
func (d *Discovery) Members() []registry.Member { return *d.members.Load() }

// publish makes the backends that are known now the ones in force. After a panic the former ones stay.
func (d *Discovery) publish() {
	recovery.Round("kubernetes", func() {
		d.publishing.Lock()
		defer d.publishing.Unlock()
		next := d.gather()
		if slices.Equal(next, d.Members()) {
			return
		}
		d.members.Store(&next)
		d.o.Changed()
	})
}

// seen is the input of a gather.
type seen struct {
	settings *Settings
	services []*service
	texts    map[string]named
	slices   []*endpointSlice
}

// look returns what is known now.
func (d *Discovery) look() seen {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.prune()
	return seen{d.settings, d.services.objects(), d.texts.known(), d.slices.objects()}
}

// gather computes the members, and logs new problems. The caller holds d.publishing, but not d.mu.
func (d *Discovery) gather() []registry.Member {
	now := d.look()
	if d.foundWith != now.settings {
		d.found, d.foundWith = nil, now.settings // other addresses may be permitted
	}
	announced, wrong := now.settings.Watch.announced(now.services)
	before := len(announced)
	announced, refused := admit(announced)
	next := &shown{refused: before - len(announced)}
	announced, without := d.manifests.assign(announced, now.texts)
	next.manifests, next.waiting = d.manifests.documents(), d.manifests.waiting
	index := indexSlices(now.slices)
	var parts [][]registry.Member
	found := map[foundKey]kept{}
	targets := slices.Concat(now.settings.Targets, announced)
	slices.SortStableFunc(targets, func(a, b Target) int { return strings.Compare(a.Capability, b.Capability) })
	for i := range targets {
		t := &targets[i]
		of := d.find(t, index.of(t), found)
		parts = append(parts, of.members)
		for _, p := range of.problems {
			next.problems.add(t.Capability + ": " + p)
		}
	}
	for _, p := range slices.Concat(refused, wrong, without) {
		next.problems.add(p)
	}
	d.note(&next.problems)
	d.shown.Store(next)
	d.found = found
	return registry.Merge(parts...)
}

// members appends the backends of a target. Backends that terminate get new calls only if there is no other one.
func (t *Target) members(to []registry.Member, all []endpoint) []registry.Member {
	others := slices.ContainsFunc(all, func(e endpoint) bool { return e.usage == usable })
	for i := range all {
		e := &all[i]
		m := registry.Member{Capability: t.Capability, Addr: t.addr(e), Protocol: t.Web, ServerName: e.host,
			Weight: t.Weight, Zone: e.zone, Dialect: t.Dialect, Manifest: t.sum, Source: Name}
		if e.usage == leaving && others {
			m.Weight = 0
		}
		to = append(to, m)
	}
	return to
}

// addr returns the address of a backend: ip:port or a URL.
func (t *Target) addr(e *endpoint) string {
	switch {
	case t.Web == "":
		return e.addr.String()
	case t.Secure:
		return "https://" + e.addr.String() + cmp.Or(t.Path, defaultPath)
	}
	return "http://" + e.addr.String() + cmp.Or(t.Path, defaultPath)
}

// defaultPath is the path of MCP servers.
const defaultPath = "/mcp"
