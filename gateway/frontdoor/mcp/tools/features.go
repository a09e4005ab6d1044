package tools

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/capgate/capgate/gateway/frontdoor/mcp"
	"github.com/capgate/capgate/gateway/frontdoor/web"
	"github.com/capgate/capgate/internal/lib/recovery"
	"github.com/capgate/capgate/internal/manifest"
	"github.com/capgate/capgate/router"
)

const (
	featuresAge     = time.Minute      // for which a list of features is not requested again
	featuresRetry   = 5 * time.Second  // after a failure
	featuresTimeout = 10 * time.Second // of a request
	featuresAtOnce  = 16               // requests for a caller
)

// features caches the prompts and resources of MCP servers, which they list. A list is requested when a caller needs
// it. If that fails, the last one stays. It is safe for concurrent use.
type features struct {
	router *router.Router
	list   func(ctx context.Context, capability string) ([]byte, error)

	mu  sync.Mutex
	all map[string]*listedFeatures // of fleets
}

// listedFeatures are the features of a fleet.
type listedFeatures struct {
	turn  chan struct{} // capacity 1: held while they are requested
	known atomic.Pointer[manifest.Features]
	fresh atomic.Int64 // Unix time in nanoseconds until which they are not requested again
}

func newFeatures(of *router.Router, list func(ctx context.Context, capability string) ([]byte, error)) *features {
	return &features{router: of, list: list, all: map[string]*listedFeatures{}}
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

// entry returns the entry of a fleet. Entries of removed fleets are dropped.
func (f *features) entry(capability string) *listedFeatures {
	f.mu.Lock()
	defer f.mu.Unlock()
	if e := f.all[capability]; e != nil {
		return e
	}
	table := f.router.Table()
	for id := range f.all {
		if table.Fleet(id) == nil {
			delete(f.all, id)
		}
	}
	e := &listedFeatures{turn: make(chan struct{}, 1)}
	f.all[capability] = e
	return e
}

// of returns the features of a fleet; nil means they are not known. It may wait until ctx ends.
func (f *features) of(ctx context.Context, capability string) *manifest.Features {
	e := f.entry(capability)
	if time.Now().UnixNano() < e.fresh.Load() {
		return e.known.Load()
	}
	select {
	case e.turn <- struct{}{}:
	case <-ctx.Done():
		return e.known.Load()
	}
	defer func() { <-e.turn }()
	if time.Now().UnixNano() >= e.fresh.Load() {
		f.refresh(ctx, capability, e)
	}
	return e.known.Load()
}

// refresh requests the features of a fleet. The caller must hold the turn.
func (f *features) refresh(ctx context.Context, capability string, e *listedFeatures) {
	// One caller that leaves does not fail the others.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), featuresTimeout)
	defer cancel()
	age := featuresAge
	if found, err := f.request(ctx, capability); err == nil {
		e.known.Store(found)
	} else {
		age = featuresRetry
	}
	e.fresh.Store(time.Now().Add(age).UnixNano())
}

func (f *features) request(ctx context.Context, capability string) (*manifest.Features, error) {
	text, err := f.list(ctx, capability)
	if err != nil {
		return nil, err
	}
	return manifest.ParseFeatures(text)
}

// offersOf implements mcp.Features.
type offersOf struct{ toolsOf }

// Prompts implements mcp.Features.
func (t offersOf) Prompts(ctx context.Context) ([]mcp.Offer, error) {
	return t.offers(ctx, func(o *mcp.Offer, of *manifest.Features) error {
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
	})
}

// Resources implements mcp.Features.
func (t offersOf) Resources(ctx context.Context) ([]mcp.Offer, error) {
	return t.offers(ctx, func(o *mcp.Offer, of *manifest.Features) (err error) {
		o.Reads, err = t.Usable.Usability(ctx, &web.From(ctx).Identity, o.Capability, manifest.ReadResource)
		if o.Reads {
			o.Resources, o.Templates = of.Resources, of.Templates
		}
		return err
	})
}

// offers returns an offer of each fleet of MCP servers that the caller of ctx sees and whose features are known, in the
// order of ids. fill adds those features that the caller may use.
func (t offersOf) offers(ctx context.Context, fill func(*mcp.Offer, *manifest.Features) error) ([]mcp.Offer, error) {
	caller := &web.From(ctx).Identity
	ids := slices.DeleteFunc(t.features.capabilities(), func(id string) bool { return !caller.Sees(id) })
	found := make([]*manifest.Features, len(ids))
	var group errgroup.Group
	group.SetLimit(featuresAtOnce)
	for i, id := range ids {
		group.Go(func() error {
			return recovery.Do("mcp features", func() error {
				found[i] = t.features.of(ctx, id)
				return nil
			})
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	var all []mcp.Offer
	for i, id := range ids {
		if found[i] == nil { // a server that is down hides nothing but itself
			continue
		}
		o := mcp.Offer{Capability: id}
		if err := fill(&o, found[i]); err != nil {
			return nil, err
		}
		all = append(all, o)
	}
	return all, nil
}

// Has implements mcp.Features.
func (t offersOf) Has(ctx context.Context, capability string) bool {
	fleet := t.router.Table().Fleet(capability)
	return fleet != nil && fleet.Protocol().Traits().Relayed && web.From(ctx).Identity.Sees(capability)
}
