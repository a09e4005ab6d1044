package tools

import (
	"context"
	"crypto/sha256"
	"strings"
	"sync"
	"time"

	"github.com/capgate/capgate/internal/lib/backoff"
	"github.com/capgate/capgate/internal/lib/broadcast"
	"github.com/capgate/capgate/internal/lib/recovery"
	"github.com/capgate/capgate/internal/lib/semaphore"
	"github.com/capgate/capgate/internal/lib/signal"
	"github.com/capgate/capgate/internal/tenant"
)

// ViewChange is a change that may affect the tools of callers.
type ViewChange struct {
	Tenant     string // tenant of the callers; empty means all tenants
	Capability string // capability of the tools; empty means any
}

// ViewChanges forwards changes to the streams that they affect. The zero value is valid. It is safe for concurrent
// use.
type ViewChanges struct {
	mu    sync.Mutex
	views map[*view]struct{} // views of callers with open streams; bounded by the number of streams
}

// Send forwards a change. It does not block.
func (c *ViewChanges) Send(change ViewChange) {
	c.mu.Lock()
	defer c.mu.Unlock()
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

// views checks the tools of callers for streams of changes: once for all streams of callers with the same view,
// independently of calls, and for few tenants at once.
type views struct {
	changes *ViewChanges
	looks   *semaphore.Semaphore // of tenants
	look    func(context.Context, *tenant.Identity) ([sha256.Size]byte, error)

	mu    sync.Mutex
	all   map[viewKey]*view // views with streams; bounded by the number of streams
	names byte              // changes with each change of tools' names
}

// renamed notifies all streams that the names of tools have changed.
func (s *views) renamed() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.names++
	s.changes.Send(ViewChange{})
}

// named adds the names of tools to their digest.
func (s *views) named(sum [sha256.Size]byte) [sha256.Size]byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	sum[0] += s.names
	return sum
}

// viewKey is what the tools of a caller depend on, besides rules and catalog.
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

// view is the state of the tools of callers with the same view.
type view struct {
	key     viewKey
	caller  tenant.Identity // any of these callers
	streams int             // guarded by views.mu
	due     chan struct{}   // signals that a check is due
	stop    context.CancelFunc
	ended   chan struct{}

	changed broadcast.Signal // sent after the first check, and when the tools have changed
	mu      sync.Mutex
	looked  bool
	sum     [sha256.Size]byte
	err     error // error of the first check
}

func newViews(changes *ViewChanges, look func(context.Context, *tenant.Identity) ([sha256.Size]byte, error)) *views {
	if changes == nil {
		changes = &ViewChanges{}
	}
	return &views{changes: changes, looks: semaphore.New(viewLooks, maxWatchers), look: look, all: map[viewKey]*view{}}
}

// watch calls changed after the first check of the caller's tools, and each time they have changed, until ctx ends.
// The error is that of changed, or of the first check.
func (s *views) watch(ctx context.Context, caller *tenant.Identity, changed func() error) error {
	v := s.join(caller)
	defer s.leave(v)
	var told [sha256.Size]byte
	for begun := false; ; {
		next := v.changed.Next()
		switch sum, looked, err := v.last(); {
		case err != nil:
			return err
		case looked && (!begun || sum != told):
			begun, told = true, sum
			if err := changed(); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-next:
		}
	}
}

// join returns the view of a caller, and adds a stream to it.
func (s *views) join(caller *tenant.Identity) *view {
	key := viewKeyOf(caller)
	s.mu.Lock()
	defer s.mu.Unlock()
	if v := s.all[key]; v != nil {
		v.streams++
		return v
	}
	ctx, cancel := context.WithCancel(context.Background())
	v := &view{key: key, caller: *caller, streams: 1, due: make(chan struct{}, 1), stop: cancel,
		ended: make(chan struct{})}
	s.all[key] = v
	s.changes.add(v)
	go func() { // ends when the last stream leaves
		defer close(v.ended)
		s.follow(ctx, v)
	}()
	return v
}

// leave removes a stream from a view. The last one ends it.
func (s *views) leave(v *view) {
	s.mu.Lock()
	if v.streams--; v.streams > 0 {
		s.mu.Unlock()
		return
	}
	delete(s.all, v.key)
	s.mu.Unlock()
	s.changes.remove(v)
	v.stop()
	<-v.ended
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

// lookAt checks a view once. If the tools of a caller cannot be read, they count as unchanged.
func (s *views) lookAt(ctx context.Context, v *view) {
	release, err := s.looks.Acquire(ctx, v.key.tenant)
	if err != nil {
		return
	}
	defer release()
	sum, err := s.look(ctx, &v.caller)
	v.mu.Lock()
	changed := false
	switch {
	case err == nil:
		sum = s.named(sum)
		changed = !v.looked || v.sum != sum
		v.looked, v.sum, v.err = true, sum, nil
	case !v.looked && ctx.Err() == nil:
		v.err, changed = err, true
	}
	v.mu.Unlock()
	if changed {
		v.changed.Send()
	}
}

// last returns the result of the last check. The error is that of the first one.
func (v *view) last() (sum [sha256.Size]byte, looked bool, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.sum, v.looked, v.err
}
