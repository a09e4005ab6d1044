package tools

import (
	"context"
	"crypto/sha256"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/capgate/capgate/gateway/frontdoor/mcp"
	"github.com/capgate/capgate/internal/lib/backoff"
	"github.com/capgate/capgate/internal/lib/recovery"
	"github.com/capgate/capgate/internal/lib/semaphore"
	"github.com/capgate/capgate/internal/lib/signal"
	"github.com/capgate/capgate/internal/tenant"
)

// ViewChange is a change that may affect the lists of callers.
type ViewChange struct {
	Tenant     string // tenant of the callers; empty means all tenants
	Capability string // capability of the tools; empty means any
	Listed     bool   // the capability was listed again, so that its prompts and resources may have changed, too
}

// ViewChanges forwards changes to the streams that they affect. The zero value is valid. It is safe for concurrent
// use.
type ViewChanges struct {
	mu       sync.Mutex
	views    map[*view]struct{} // views of callers with open streams; bounded by the number of streams
	features *features          // requested again with a capability; nil means none
}

// list makes changes request features again.
func (c *ViewChanges) list(of *features) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.features = of
}

// Send forwards a change. It does not block.
func (c *ViewChanges) Send(change ViewChange) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if change.Listed && c.features != nil {
		c.features.changed(change.Capability)
	}
	for v := range c.views {
		if (change.Tenant == "" || change.Tenant == v.key.tenant) &&
			(change.Capability == "" || v.caller.Sees(change.Capability)) {
			signal.Wake(v.due)
		}
	}
}

const (
	viewLooks  = 2           // at once, of all tenants; at most one per tenant
	viewPause  = time.Second // minimum time between two checks of a view, because changes often come together
	viewRecent = time.Minute // interval of checks without a change, because rules expire
)

// listSums holds digests of the lists of a caller.
type listSums struct{ tools, prompts, resources [sha256.Size]byte }

// differing returns the lists with other digests than before.
func (s *listSums) differing(before *listSums) (all mcp.Lists) {
	if s.tools != before.tools {
		all |= mcp.ToolList
	}
	if s.prompts != before.prompts {
		all |= mcp.PromptList
	}
	if s.resources != before.resources {
		all |= mcp.ResourceList
	}
	return all
}

// views checks the lists of callers for streams of changes: once for all streams of callers with the same view,
// independently of calls, and for few tenants at once.
type views struct {
	changes *ViewChanges
	looks   *semaphore.Semaphore // of tenants
	look    func(context.Context, *tenant.Identity) (listSums, error)
	leaving context.Context //nolint:containedctx // ends when the gateway stops

	mu  sync.Mutex
	all map[viewKey]*view // views with streams; bounded by the number of streams
}

// renamed notifies the streams of a tenant, or of all for "", that the names of tools and prompts have changed.
func (s *views) renamed(tenant string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, v := range s.all {
		if tenant == "" || tenant == key.tenant {
			v.names.Add(1)
		}
	}
	s.changes.Send(ViewChange{Tenant: tenant})
}

// named adds the number of changes of names to the digests of tools and prompts.
func (s listSums) named(names byte) listSums {
	s.tools[0] += names
	s.prompts[0] += names
	return s
}

// viewKey has the properties of a caller that determine its lists, besides rules and catalog.
type viewKey struct {
	tenant, uid, user, agent string
	grants                   string
	at                       *tenant.Listener
}

func viewKeyOf(caller *tenant.Identity) viewKey {
	key := viewKey{tenant: caller.Tenant, user: caller.User, agent: caller.Agent, at: caller.At}
	if s := caller.Settings; s != nil {
		key.uid, key.grants = s.UID(), strings.Join(s.Capabilities.Patterns(), "\n")
	}
	return key
}

// view is the state of the lists of callers with the same view.
type view struct {
	key    viewKey
	caller tenant.Identity // any of these callers
	due    chan struct{}   // signals that a check is due
	stop   context.CancelFunc
	ended  chan struct{}
	names  atomic.Uint32 // changes with each change of the names of tools and prompts

	mu      sync.Mutex
	streams map[*watcher]struct{} // added and removed under views.mu; notified of the first check and of changes
	sums    *listSums             // of the last check; nil means none yet
	err     error                 // error of the first check
}

func newViews(leaving context.Context, changes *ViewChanges,
	look func(context.Context, *tenant.Identity) (listSums, error)) *views {
	if changes == nil {
		changes = &ViewChanges{}
	}
	return &views{changes: changes, looks: semaphore.New(viewLooks, maxWatchers), look: look, leaving: leaving,
		all: map[viewKey]*view{}}
}

// notify notifies all streams.
func (s *views) notify() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, v := range s.all {
		v.notify()
	}
}

// join returns the view of a caller, and adds a stream to it.
func (s *views) join(caller *tenant.Identity, w *watcher) *view {
	key := viewKeyOf(caller)
	s.mu.Lock()
	defer s.mu.Unlock()
	if v := s.all[key]; v != nil {
		v.add(w)
		return v
	}
	ctx, cancel := context.WithCancel(context.Background())
	v := &view{key: key, caller: *caller, due: make(chan struct{}, 1), stop: cancel, ended: make(chan struct{})}
	v.add(w)
	s.all[key] = v
	s.changes.add(v)
	go func() { // ends when the last stream leaves
		defer close(v.ended)
		s.follow(ctx, v)
	}()
	return v
}

// leave removes a stream from a view. The last one ends it.
func (s *views) leave(v *view, w *watcher) {
	s.mu.Lock()
	if v.remove(w) > 0 {
		s.mu.Unlock()
		return
	}
	delete(s.all, v.key)
	s.mu.Unlock()
	s.changes.remove(v)
	v.stop()
	<-v.ended
}

func (v *view) add(w *watcher) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.streams == nil {
		v.streams = map[*watcher]struct{}{}
	}
	v.streams[w] = struct{}{}
}

// remove removes a stream, and returns the number of the others.
func (v *view) remove(w *watcher) int {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.streams, w)
	return len(v.streams)
}

// notify notifies the streams of the view.
func (v *view) notify() {
	v.mu.Lock()
	defer v.mu.Unlock()
	for w := range v.streams {
		w.notify()
	}
}

func (c *ViewChanges) add(v *view) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.views == nil {
		c.views = map[*view]struct{}{}
	}
	c.views[v] = struct{}{}
}

func (c *ViewChanges) remove(v *view) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.views, v)
}

// follow checks a view after changes until ctx ends.
func (s *views) follow(ctx context.Context, v *view) {
	for ctx.Err() == nil {
		_ = recovery.Do("mcp view", func() error { s.lookAt(ctx, v); return nil })
		backoff.Sleep(ctx, viewPause)
		signal.Wait(ctx, v.due, viewRecent-viewPause)
	}
}

// lookAt checks a view once. If the lists of a caller cannot be read, they count as unchanged.
func (s *views) lookAt(ctx context.Context, v *view) {
	release, err := s.looks.Acquire(ctx, v.key.tenant)
	if err != nil {
		return
	}
	defer release()
	names := v.names.Load() // before the look
	sums, err := s.look(ctx, &v.caller)
	v.mu.Lock()
	changed := false
	switch {
	case err == nil:
		if sums = sums.named(byte(names)); v.sums == nil || *v.sums != sums {
			v.sums, changed = &sums, true
		}
		v.err = nil
	case v.sums == nil && ctx.Err() == nil:
		v.err, changed = err, true
	}
	v.mu.Unlock()
	if changed {
		v.notify()
	}
}

// last returns the result of the last check; nil means that there was none. The error is that of the first one.
func (v *view) last() (sums *listSums, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.sums, v.err
}
