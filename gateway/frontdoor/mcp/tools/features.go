package tools

import (
	"context"
	"crypto/sha256"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/capgate/capgate/gateway/frontdoor/mcp"
	"github.com/capgate/capgate/gateway/frontdoor/web"
	"github.com/capgate/capgate/internal/lib/recovery"
	"github.com/capgate/capgate/internal/manifest"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/router"
)

const (
	featuresAge     = time.Minute      // for which a list of features is not requested again
	featuresRetry   = 5 * time.Second  // after a failure
	featuresTimeout = 10 * time.Second // of a request
	featuresWait    = time.Second      // for which callers wait for the first list, from the start of its request
	featuresAtOnce  = 64               // requests
)

// features caches the prompts and resources of MCP servers, which they list. A list is requested when a caller needs
// it, once for all callers, and at once when it may have changed. Callers wait only for the first one. If a request
// fails, the last list stays. It is safe for concurrent use.
type features struct {
	router  *router.Router
	list    func(ctx context.Context, capability string) ([]byte, error)
	changes *ViewChanges // sends changes of lists; nil means that no stream needs them
	wait    time.Duration
	limit   time.Duration // of a request

	leaving context.Context // ends the requests
	slots   chan struct{}
	running sync.WaitGroup

	mu     sync.Mutex
	closed bool
	all    map[string]*listedFeatures // of fleets
}

// listedFeatures are the features of a fleet. The lock of features guards them.
type listedFeatures struct {
	known    *manifest.Features // nil means they are not known
	fresh    time.Time          // until which they are not requested again
	pending  chan struct{}      // closed when their request ends; nil means none
	again    bool               // they may have changed since the request began
	patience time.Time          // until which callers wait for it
}

// newFeatures returns features whose requests end with leaving. The caller must close it.
func newFeatures(leaving context.Context, of *router.Router,
	list func(ctx context.Context, capability string) ([]byte, error)) *features {
	return &features{router: of, list: list, wait: featuresWait, limit: featuresTimeout, leaving: leaving,
		slots: make(chan struct{}, featuresAtOnce), all: map[string]*listedFeatures{}}
}

// close waits for the requests, which must have been ended. There are no further ones.
func (f *features) close() {
	f.mu.Lock()
	f.closed = true
	f.mu.Unlock()
	f.running.Wait()
}

// capabilities returns the fleets of MCP servers, sorted.
func (f *features) capabilities() (ids []string) {
	for _, fleet := range f.router.Table().Fleets() {
		if fleet.Protocol().Traits().Relayed {
			ids = append(ids, fleet.Capability)
		}
	}
	slices.Sort(ids)
	return ids
}

// entry returns the entry of a fleet. Entries of removed fleets are dropped. The caller must hold the lock.
func (f *features) entry(capability string) *listedFeatures {
	if e := f.all[capability]; e != nil {
		return e
	}
	table := f.router.Table()
	for id := range f.all {
		if table.Fleet(id) == nil {
			delete(f.all, id)
		}
	}
	e := &listedFeatures{}
	f.all[capability] = e
	return e
}

// now returns the features of a fleet as they are known. If they are old, a request begins.
func (f *features) now(capability string) listedFeatures {
	f.mu.Lock()
	defer f.mu.Unlock()
	e := f.entry(capability)
	f.begin(capability, e)
	return *e
}

// seen is now that requests no old features again: streams of changes need them only when they may have changed.
func (f *features) seen(capability string) *manifest.Features {
	f.mu.Lock()
	defer f.mu.Unlock()
	e := f.entry(capability)
	if e.known == nil {
		f.begin(capability, e)
	}
	return e.known
}

// changed requests the features of a fleet again, if a caller has needed them.
func (f *features) changed(capability string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if e := f.all[capability]; e != nil {
		e.fresh, e.again = time.Time{}, e.pending != nil
		f.begin(capability, e)
	}
}

// begin begins a request of features, unless they are fresh. The caller must hold the lock.
func (f *features) begin(capability string, e *listedFeatures) {
	if start := time.Now(); e.pending == nil && !f.closed && !start.Before(e.fresh) {
		e.pending, e.patience = make(chan struct{}), start.Add(f.wait)
		f.running.Go(func() { f.refresh(capability, e) })
	}
}

// refresh requests the features of a fleet.
func (f *features) refresh(capability string, e *listedFeatures) {
	var found *manifest.Features
	err := recovery.Do("mcp features", func() (err error) {
		found, err = f.request(capability)
		return err
	})
	if f.replace(capability, e, found, err) && f.changes != nil {
		f.changes.Send(ViewChange{Capability: capability})
	}
}

// replace ends a request of features, and reports whether they have changed.
func (f *features) replace(capability string, e *listedFeatures, found *manifest.Features, err error) (changed bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	age := featuresRetry
	if err == nil {
		changed = e.known == nil || e.known.Sum != found.Sum
		e.known, age = found, featuresAge
	}
	e.fresh = time.Now().Add(age)
	close(e.pending)
	e.pending = nil
	if e.again {
		e.again, e.fresh = false, time.Time{}
		f.begin(capability, e)
	}
	return changed
}

// of returns the features of a fleet; nil means they are not known. It waits for the first list.
func (f *features) of(ctx context.Context, capability string) *manifest.Features {
	e := f.now(capability)
	if e.known != nil || e.pending == nil {
		return e.known
	}
	patience := time.NewTimer(time.Until(e.patience))
	defer patience.Stop()
	select {
	case <-e.pending:
	case <-patience.C:
	case <-ctx.Done():
	}
	return f.now(capability).known
}

func (f *features) request(capability string) (*manifest.Features, error) {
	ctx, cancel := context.WithTimeout(f.leaving, f.limit)
	defer cancel()
	select {
	case f.slots <- struct{}{}:
		defer func() { <-f.slots }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	text, err := f.list(ctx, capability)
	if err != nil {
		return nil, err
	}
	return manifest.ParseFeatures(text)
}

// offersOf implements mcp.Features.
type offersOf struct{ toolsOf }

// Prompts implements mcp.Features.
func (t offersOf) Prompts(ctx context.Context, wait bool) ([]mcp.Offer, error) {
	all, err := t.offers(ctx, wait, t.prompts)
	return slices.DeleteFunc(all, func(o mcp.Offer) bool { return o.Unknown }), err
}

// prompts adds the prompts that the caller of ctx may get.
func (t offersOf) prompts(ctx context.Context, o *mcp.Offer, of *manifest.Features) error {
	if of == nil { // a server that is down hides nothing but itself
		return nil
	}
	for _, p := range of.Prompts {
		usable, err := t.Usable.Usability(ctx, &web.From(ctx).Identity, o.Capability, manifest.PromptPrefix+p.Name)
		if err != nil {
			return err
		}
		if usable {
			o.Prompts = append(o.Prompts, p)
		}
	}
	return nil
}

// Prompt implements mcp.Features.
func (t offersOf) Prompt(ctx context.Context, capability, prompt string) (known, may bool, err error) {
	if !t.Has(ctx, capability) {
		return false, false, nil
	}
	of := t.features.of(ctx, capability)
	if of != nil && manifest.Find(of.Prompts, prompt) == nil {
		return true, false, nil
	}
	may, err = t.Usable.Usability(ctx, &web.From(ctx).Identity, capability, manifest.PromptPrefix+prompt)
	return of != nil, may, err
}

// Resources implements mcp.Features.
func (t offersOf) Resources(ctx context.Context, wait bool) ([]mcp.Offer, error) {
	return t.offers(ctx, wait, t.resources)
}

// resources adds the resources that the caller of ctx may read.
func (t offersOf) resources(ctx context.Context, o *mcp.Offer, of *manifest.Features) (err error) {
	o.Reads, err = t.Usable.Usability(ctx, &web.From(ctx).Identity, o.Capability, manifest.ReadResource)
	if o.Reads && of != nil {
		o.Resources, o.Templates, o.URIs = of.Resources, of.Templates, of.URIs
	}
	return err
}

// offers returns an offer of each fleet of MCP servers that the caller of ctx sees, in the order of ids. If wait is
// true, it waits for first lists. fill adds the features that the caller may use; nil means they are not known.
func (t offersOf) offers(ctx context.Context, wait bool, fill func(context.Context, *mcp.Offer,
	*manifest.Features) error) (all []mcp.Offer, _ error) {
	caller := &web.From(ctx).Identity
	ids := slices.DeleteFunc(t.features.capabilities(), func(id string) bool { return !caller.Sees(id) })
	found := make([]*manifest.Features, len(ids))
	for i, id := range ids { // all requests begin before it waits
		found[i] = t.features.now(id).known
	}
	for i, id := range ids {
		if found[i] == nil && wait {
			found[i] = t.features.of(ctx, id)
		}
		o := mcp.Offer{Capability: id, Unknown: found[i] == nil}
		if err := fill(ctx, &o, found[i]); err != nil {
			return nil, err
		}
		all = append(all, o)
	}
	return all, nil
}

// Updates implements mcp.Features.
func (t offersOf) Updates(ctx context.Context, capability string) (may bool, err error) {
	caller := &web.From(ctx).Identity
	if may = t.Has(ctx, capability); may {
		may, err = t.Usable.Usability(ctx, caller, capability, manifest.ReadResource)
	}
	if may && err == nil {
		may, err = t.Usable.Usability(ctx, caller, capability, manifest.Subscribe)
	}
	return may, err
}

// fingerprints returns digests of the prompts and of the resources that a caller may use, as far as they are known.
func (t offersOf) fingerprints(ctx context.Context, caller *tenant.Identity) (prompts, resources [sha256.Size]byte,
	_ error) {
	ofPrompts, ofResources, n := sha256.New(), sha256.New(), 0
	for _, id := range t.features.capabilities() {
		if !caller.Sees(id) {
			continue
		}
		known := t.features.seen(id)
		if known == nil {
			continue
		}
		reads, err := t.Usable.Usability(ctx, caller, id, manifest.ReadResource)
		if err != nil {
			return prompts, resources, err
		}
		if reads {
			ofResources.Write([]byte(id + "\x00"))
			ofResources.Write(known.ResourceSum[:])
		}
		for _, p := range known.Prompts {
			usable, err := t.Usable.Usability(ctx, caller, id, manifest.PromptPrefix+p.Name)
			if err != nil {
				return prompts, resources, err
			}
			if usable {
				ofPrompts.Write([]byte(id + "\x00"))
				ofPrompts.Write(p.Sum[:])
			}
			if n++; n%16 == 0 {
				runtime.Gosched()
			}
		}
	}
	return [sha256.Size]byte(ofPrompts.Sum(nil)), [sha256.Size]byte(ofResources.Sum(nil)), nil
}

// Has implements mcp.Features.
func (t offersOf) Has(ctx context.Context, capability string) bool {
	fleet := t.router.Table().Fleet(capability)
	return fleet != nil && fleet.Protocol().Traits().Relayed && web.From(ctx).Identity.Sees(capability)
}
