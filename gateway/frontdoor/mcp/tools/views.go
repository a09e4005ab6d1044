package tools

import (
	"context"
	"crypto/sha256"
	"strings"
	"sync"
	"time"

	"github.com/capgate/capgate/internal/lib/broadcast"
	"github.com/capgate/capgate/internal/lib/recovery"
	"github.com/capgate/capgate/internal/lib/semaphore"
	"github.com/capgate/capgate/internal/lib/signal"
	"github.com/capgate/capgate/internal/tenant"
)

// ViewChange is a change after which the tools of callers may be others.
type ViewChange struct {
	Tenant     string // its callers; empty means those of all tenants
	Capability string // that has the tools; empty means any
}

// ViewChanges passes changes on to the streams that they concern. The zero value is usable. It is safe for concurrent
// use.
type ViewChanges struct {
	mu    sync.Mutex
	views map[*view]struct{} // of callers with open streams; no more than streams
}

// Send passes a change on. It does not block.
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
	viewLooks  = 2           // at once, of all tenants; one tenant has one
	viewPause  = time.Second // between two looks at a view: changes often come together
	viewRecent = time.Minute // after which a view is looked at without a change, as rules expire
)

// views look at the tools of callers for streams of changes: once for all streams of callers with the same view,
// beside the calls, and of few tenants at once.
type views struct {
	changes *ViewChanges
	looks   *semaphore.Semaphore // of tenants
	look    func(context.Context, *tenant.Identity) ([sha256.Size]byte, error)

	mu    sync.Mutex
	all   map[viewKey]*view // those with streams; no more than streams
	names byte              // is another one after each change of the names of tools
}

// renamed notifies all streams: their tools have other names.
func (s *views) renamed() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.names++
	s.changes.Send(ViewChange{})
}

// named adds the names of tools to what identifies them.
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

// view is the tools of callers.
type view struct {
	key     viewKey
	caller  tenant.Identity // one of them
	streams int             // under views.mu
	due     chan struct{}   // a look is
	stop    context.CancelFunc
	ended   chan struct{}

	changed broadcast.Signal // sent after first, and when the tools have changed
	mu      sync.Mutex
	looked  bool
	sum     [sha256.Size]byte
	err     error // of the first look
}

func newViews(changes *ViewChanges, look func(context.Context, *tenant.Identity) ([sha256.Size]byte, error)) *views {
	if changes == nil {
		changes = &ViewChanges{}
	}
	return &views{changes: changes, looks: semaphore.New(viewLooks, maxWatchers), look: look, all: map[viewKey]*view{}}
}

// watch calls changed when the caller's tools were looked at first, and each time that they have changed, until ctx
// ends. An error is changed's, or that of the first look.
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

// join returns the view of a caller, with one stream more.
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

// leave takes a stream from a view. The last one ends it.
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

// follow looks at a view after changes, until ctx ends.
func (s *views) follow(ctx context.Context, v *view) {
	recent := time.NewTicker(viewRecent)
	defer recent.Stop()
	for {
		_ = recovery.Do("mcp view", func() error { s.lookAt(ctx, v); return nil })
		pause := time.NewTimer(viewPause)
		select {
		case <-ctx.Done():
		case <-pause.C:
		}
		pause.Stop()
		select {
		case <-ctx.Done():
			return
		case <-v.due:
		case <-recent.C:
		}
	}
}

// lookAt looks at a view once. The tools of a caller that cannot be read now have not changed.
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

// last returns what the last look has found. An error is that of the first one.
func (v *view) last() (sum [sha256.Size]byte, looked bool, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.sum, v.looked, v.err
}
