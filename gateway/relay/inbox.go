package relay

import "sync/atomic"

// inbox is work for a shard from goroutines that do not have its lock, and do not wait for it: each pushes its
// event, and tries the lock. Whoever has the lock drains the inbox before letting go of it.
//
// It is bounded by construction. An event is a part of what it is about, a local end or a parked stream, and is in
// the inbox once at most.
type inbox struct {
	newest  atomic.Pointer[event]
	taken   *event      // drained, the oldest first, and still to be dealt with; under the shard's lock
	signals []*localEnd // whose users are notified when the turn ends; under the shard's lock
	lent    []*localEnd // whose buffers the shard may refer to until it has settled
}

// event is an entry of an inbox.
type event struct {
	next   *event
	queued atomic.Bool
	of     actor
}

// actor is what an event is about.
type actor interface {
	// act is called with the shard locked, after the event was posted: once for all times that it was posted before.
	act()
}

// post has an event dealt with soon, by this goroutine or another.
func (sh *shard) post(e *event) {
	sh.push(e)
	sh.tryDrain()
}

func (sh *shard) push(e *event) {
	if e.queued.Swap(true) {
		return
	}
	for {
		e.next = sh.inbox.newest.Load()
		if sh.inbox.newest.CompareAndSwap(e.next, e) {
			return
		}
	}
}

// tryDrain deals with the inbox, unless another has the lock: that one does, see unlock.
func (sh *shard) tryDrain() {
	if sh.inbox.newest.Load() != nil && sh.mu.TryLock() {
		sh.begin()
		sh.leave()
	}
}

func (sh *shard) drain() {
	if sh.inbox.taken != nil || sh.inbox.newest.Load() != nil {
		sh.drainAll()
	}
}

// drainAll deals with what is in the inbox now, in the order in which it came. What comes meanwhile is for another
// turn, so that connections have theirs.
func (sh *shard) drainAll() {
	if sh.inbox.taken == nil && sh.inbox.newest.Load() != nil {
		for e := sh.inbox.newest.Swap(nil); e != nil; {
			next := e.next
			e.next, sh.inbox.taken = sh.inbox.taken, e
			e = next
		}
	}
	for e := sh.inbox.taken; e != nil; e = sh.inbox.taken {
		sh.inbox.taken, e.next = e.next, nil
		e.queued.Store(false)
		e.of.act()
	}
}

// restore gives back what the shard has sent.
func (sh *shard) restore() {
	for i, e := range sh.inbox.lent {
		sh.inbox.lent[i] = nil
		e.restore()
	}
	sh.inbox.lent = sh.inbox.lent[:0]
}

// unlock lets go of the shard, and deals with what has come meanwhile unless another has the shard by now.
func (sh *shard) unlock() {
	sh.signal()
	sh.mu.Unlock()
	for sh.inbox.newest.Load() != nil && sh.mu.TryLock() {
		sh.begin()
		sh.conclude()
		sh.signal()
		sh.mu.Unlock()
	}
}

// signal tells the users of local ends what the turn brought, once each. It does not touch an end after telling:
// it may be used for another call by then.
func (sh *shard) signal() {
	for i, e := range sh.inbox.signals {
		sh.inbox.signals[i] = nil
		told := e.notifications
		e.notifications = 0
		if told&notifySender != 0 {
			wake(e.writable)
		}
		if told&notifyReceiver != 0 {
			wake(e.readable)
		}
	}
	sh.inbox.signals = sh.inbox.signals[:0]
}
