package relay

import "sync/atomic"

// inbox queues work for a shard from goroutines that do not hold its lock, and do not wait for it: each pushes its
// event, and tries the lock. The holder of the lock drains the inbox before releasing it.
//
// It is bounded by construction: an event is a part of its subject, a local end or a parked stream, and is in the
// inbox at most once.
type inbox struct {
	newest  atomic.Pointer[event]
	taken   *event      // drained, oldest first, and not yet processed; under the shard's lock
	signals []*localEnd // whose users are notified when the turn ends; under the shard's lock
	lent    []*localEnd // whose buffers the shard may refer to until it has settled
}

// event is an entry of an inbox.
type event struct {
	next   *event
	queued atomic.Bool
	of     actor
}

// actor is the subject of an event.
type actor interface {
	// act is called with the shard locked after the event was posted, once for all earlier posts.
	act()
}

// post makes this goroutine or another process an event soon.
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

// tryDrain processes the inbox, unless another goroutine holds the lock, which then does it in unlock.
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

// drainAll processes the current events of the inbox in order. Later events wait for another turn, so that connections
// get theirs.
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

// restore returns the buffers that the shard has sent.
func (sh *shard) restore() {
	for i, e := range sh.inbox.lent {
		sh.inbox.lent[i] = nil
		e.restore()
	}
	sh.inbox.lent = sh.inbox.lent[:0]
}

// unlock releases the shard, and processes new events unless another goroutine has locked it by then.
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

// signal notifies the users of local ends of what the turn has changed, once each. It does not use an end after that,
// because it may be reused for another call.
func (sh *shard) signal() {
	for i, e := range sh.inbox.signals {
		sh.inbox.signals[i] = nil
		told := e.notifications
		e.notifications = 0
		readable, writable := e.signals()
		if told&notifySender != 0 {
			wake(writable)
		}
		if told&notifyReceiver != 0 {
			wake(readable)
		}
	}
	sh.inbox.signals = sh.inbox.signals[:0]
}
