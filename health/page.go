package health

import (
	"math/rand/v2"
	"time"
)

// How pages are read.
const (
	readsAtOnce = 4
	readAgain   = 200 * time.Millisecond // least time between two reads of a page
	readFailed  = 2 * time.Second        // until a read that failed is made again
	spread      = 2 * time.Second        // over which all pages are looked at when any may have changed
	spreadEach  = 50 * time.Millisecond  // for each live replica, when all must be read whole
	earlyMost   = 64                     // notices of a page that are kept while it is read

	renewAfter   = time.Hour     // age of a vote at which it is written again
	garbageAfter = 3 * time.Hour // age of a vote, on a backend that nobody here knows, at which it is deleted
)

// page is what is known of one page of the board.
type page struct {
	fleets  map[*fleet]struct{}
	version uint64    // that is known; 0: none
	newest  uint64    // that was seen to be there
	waits   bool      // for notices up to newest, which may be on their way
	next    time.Time // when to read it again
	last    time.Time // when it was read last
	reading bool
	whole   bool     // reading all that is on it
	again   bool     // something was missed while it was read
	early   []Notice // heard while it is read, which may follow on what is read
}

// PageRead asks for a page.
type PageRead struct {
	Page  int
	Have  uint64 // version that is known already
	Whole bool   // with what is on it; else only its version is asked for
}

// takeReads takes the pages that are to be read now.
func (r *Replica) takeReads(now time.Time) []PageRead {
	var reads []PageRead
	if !r.met || r.alone {
		return nil
	}
	for n := range r.pages {
		p := &r.pages[n]
		if r.reads >= readsAtOnce {
			break
		}
		if p.reading || now.Before(p.next) {
			continue
		}
		missed := p.version < p.newest
		if p.waits && !missed && !p.again {
			p.waits, p.next = false, now.Add(vary(r.options.Reconcile, 0.2))
			continue
		}
		p.reading, p.waits, p.again, p.last = true, false, false, now
		p.whole = p.version == 0 || missed
		r.reads++
		reads = append(reads, PageRead{Page: n, Have: p.version, Whole: p.whole})
	}
	return reads
}

// soon makes a page be read as soon as it may be.
func (r *Replica) soon(n int) {
	p := &r.pages[n]
	p.again = true
	if at := p.last.Add(readAgain); at.Before(p.next) {
		p.next = at
	}
}

// reread makes all pages be read with all that is on them, over some time.
func (r *Replica) reread(now time.Time, over time.Duration) {
	r.read = true
	for n := range r.pages {
		p := &r.pages[n]
		p.version, p.again, p.next = 0, true, within(now, over)
	}
}

// lookAgain makes all pages be looked at, over some time.
func (r *Replica) lookAgain(now time.Time, over time.Duration) {
	for n := range r.pages {
		p := &r.pages[n]
		p.again = true
		if at := within(now, over); at.Before(p.next) {
			p.next = at
		}
	}
}

// within returns any time in the next d.
func within(now time.Time, d time.Duration) time.Time {
	return now.Add(time.Duration(rand.Float64() * float64(d)))
}

// writeAgain posts what this replica found out to a board that has lost everything. It
// waits until all who follow the board do so again: who hears of a page from its first
// notice on need not read it.
func (r *Replica) writeAgain(now time.Time) {
	for n := range r.pages {
		r.pages[n].blank()
		r.repair(now, &r.pages[n])
	}
	r.nextPost = now.Add(postAfterLoss)
	r.lookAgain(now, spread)
}

// blank notes that a page is not known to have any vote.
func (p *page) blank() {
	for f := range p.fleets {
		for _, t := range f.targets {
			t.posted = [2]bool{}
		}
	}
}

// Read takes a page that Step asked for.
func (r *Replica) Read(now time.Time, read PageRead, got Page, err error) {
	p := &r.pages[read.Page]
	early := p.early
	p.reading, p.whole, p.early = false, false, nil
	r.reads--
	if err != nil {
		p.next = now.Add(vary(readFailed, 0.5))
		r.repair(now, p)
		r.publish()
		return
	}
	r.looked = now
	p.next = now.Add(vary(r.options.Reconcile, 0.2))
	if p.again {
		p.next = p.last.Add(readAgain)
	}
	if !read.Whole && got.Version != 0 {
		r.glanced(read, got.Version)
		return
	}
	if p.version != read.Have && got.Version < p.version { // it was told anew meanwhile
		p.next = p.last.Add(readAgain)
		return
	}
	if got.Version == 0 && read.Have != 0 {
		r.nextPost = now.Add(postAfterLoss)
	}
	p.version, p.newest = got.Version, got.Version
	p.blank()
	for _, e := range got.Entries {
		r.compare(now, e, got.Now)
	}
	for _, n := range early {
		r.pageChanged(now, n)
	}
	r.repair(now, p)
	r.publish()
}

// glanced takes the version of a page that was not read whole. While many write, the
// board is mostly ahead of what was heard, and it would be busy with nothing else if
// all read a page for that: what is missing is mostly on its way.
func (r *Replica) glanced(read PageRead, version uint64) {
	p := &r.pages[read.Page]
	switch {
	case version < read.Have: // the board has lost something
		r.mistrust(read.Page)
	case version > p.version:
		p.newest, p.waits, p.next = version, true, p.last.Add(readAgain)
	}
}

// compare takes an entry of a page that was read.
func (r *Replica) compare(now time.Time, e Entry, boardNow int64) {
	t := r.find(e.Key)
	age := time.Duration(boardNow-e.Vote.Written) * time.Millisecond
	switch {
	case t == nil:
		if age > garbageAfter && r.wouldProbe(e.Key) {
			r.forget(e.Key)
		}
	case !t.votedHere(e.Slot):
		r.accept(now, t, e.Slot, e.Vote)
	case e.Vote.same(t.votes[e.Slot]):
		t.disputed = false
		t.posted[e.Slot] = age < renewAfter
	default:
		t.disputed = true
	}
}

// repair posts again what this replica found out and the page does not say, and
// begins to probe what had to wait for the page.
func (r *Replica) repair(now time.Time, p *page) {
	for f := range p.fleets {
		for _, t := range f.targets {
			if !t.looked {
				t.looked = true
				r.assign(now, t)
			}
			if t.probe != nil && t.votedHere(t.probe.slot) && !t.posted[t.probe.slot] {
				r.unposted(t, t.probe.slot)
			}
		}
	}
}

// Noticed takes a change of the board.
func (r *Replica) Noticed(now time.Time, n Notice) {
	switch {
	case n.Fresh:
		if r.read {
			r.lookAgain(now, spread)
		}
	case n.Left != "":
		if p := r.peers[n.Left]; p != nil && p != r.self {
			r.leave(now, p)
		}
	case n.Page >= 0 && n.Page < Pages:
		r.pageChanged(now, n)
	}
	r.publish()
}

// pageChanged takes a change of a page, of which nothing must have been missed.
func (r *Replica) pageChanged(now time.Time, n Notice) {
	p := &r.pages[n.Page]
	switch {
	case n.New:
		p.blank()
		p.newest, p.early = 0, nil
	case n.Version <= p.version:
		return
	case n.Version != p.version+1 && p.whole && len(p.early) < earlyMost:
		p.early = append(p.early, n)
		return
	case n.Version != p.version+1:
		p.newest = n.Version
		r.soon(n.Page)
		return
	}
	p.version = n.Version
	for _, e := range n.Entries {
		r.hear(now, e, n.Page)
	}
	if n.New {
		r.repair(now, p)
	}
}

// hear takes an entry that was published. A backend that is gone for others may be
// known here for a little longer, and is kept.
func (r *Replica) hear(now time.Time, e Entry, n int) {
	t := r.find(e.Key)
	switch {
	case t == nil || e.Vote == nil:
	case !t.votedHere(e.Slot):
		r.accept(now, t, e.Slot, e.Vote)
	case e.Vote.same(t.votes[e.Slot]):
		t.disputed, t.posted[e.Slot] = false, true
	default: // somebody else thinks that it is his turn; the page will show who was last
		t.disputed = true
		r.mistrust(n)
	}
}

// mistrust makes a page be read whole, soon.
func (r *Replica) mistrust(n int) {
	r.pages[n].version = 0
	r.soon(n)
}

// concede is called when t is not this replica's to judge any more. What others said
// of it meanwhile counts now.
func (r *Replica) concede(t *target) {
	if t.disputed {
		t.disputed = false
		r.mistrust(t.fleet.page)
	}
}

// accept takes another replica's vote.
func (r *Replica) accept(now time.Time, t *target, slot Slot, v *Vote) {
	if old := t.votes[slot]; old == nil || *old != *v {
		r.vote(t, slot, v)
	}
	t.posted[slot] = true
	r.assign(now, t)
	r.settle(now, t, false)
}

// votedHere says whether what is known in slot is for this replica to say.
func (t *target) votedHere(slot Slot) bool {
	return t.probe != nil && t.probe.slot == slot && t.probe.voted
}

// wouldProbe says whether this replica would be the first of a backend's order.
func (r *Replica) wouldProbe(k Key) bool {
	t := target{hash: hash(k.Capability + " " + k.Addr)}
	for _, p := range r.alive {
		t.meets(p)
	}
	return t.first == r.self
}
