package approvals

import (
	"context"
	"slices"
	"sync"
)

// maxFeedEvents is the number of a tenant's last events that are kept for other readers.
const maxFeedEvents = 16

// feeds are the tenants' streams of events that have readers. A page near the end is read and decoded once for all
// readers.
type feeds struct {
	mu  sync.Mutex
	all map[string]*feed // by tenant; no more than readers
}

// feed is a tenant's stream.
type feed struct {
	readers int           // under feeds.mu
	turn    chan struct{} // capacity 1: held while the stream is read

	// Under turn.
	pages []feedPage // the last ones
	kept  int        // events in pages
}

// feedPage has the events between two positions.
type feedPage struct {
	after, last string
	events      []Event // not changed
}

// join returns the feed of a tenant, with one reader more.
func (s *feeds) join(tenant string) (fd *feed, leave func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if fd = s.all[tenant]; fd == nil {
		if s.all == nil {
			s.all = map[string]*feed{}
		}
		fd = &feed{turn: make(chan struct{}, 1)}
		s.all[tenant] = fd
	}
	fd.readers++
	return fd, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if fd.readers--; fd.readers == 0 {
			delete(s.all, tenant)
		}
	}
}

// read returns the events after a position, and the position of the last one, by read or from the last page.
func (fd *feed) read(ctx context.Context, after string,
	read func() ([]Event, string, error)) (events []Event, last string, err error) {
	select {
	case fd.turn <- struct{}{}:
		defer func() { <-fd.turn }()
	case <-ctx.Done():
		return nil, "", ctx.Err()
	}
	for i := range fd.pages {
		if p := &fd.pages[i]; p.after == after {
			return p.events, p.last, nil
		}
	}
	if events, last, err = read(); err == nil && after != "" && len(events) > 0 && len(events) <= maxFeedEvents {
		fd.keep(feedPage{after, last, events})
	}
	return events, last, err
}

// keep keeps a page, and forgets the oldest ones that are too many.
func (fd *feed) keep(p feedPage) {
	fd.pages = append(fd.pages, p)
	for fd.kept += len(p.events); fd.kept > maxFeedEvents; {
		fd.kept -= len(fd.pages[0].events)
		fd.pages = slices.Delete(fd.pages, 0, 1)
	}
}

// sharedNotification is a notification that loads its approval once for all listeners.
type sharedNotification struct {
	Notification

	mu     sync.Mutex
	loaded bool
	event  Event // not changed
}

// load returns the event, which the first listener loads.
func (n *sharedNotification) load(load func(*Notification) (Event, bool)) Event {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.loaded {
		return n.event
	}
	event, ok := load(&n.Notification)
	if ok {
		n.event, n.loaded = event, true
	}
	return event
}
