package relay

import "iter"

// turnStack is the stack on which a shard processes its connections' input. A turn needs several KiB of stack, which a
// goroutine keeps while it waits. The goroutine of a connection therefore only waits and locks the shard, for which the
// smallest stack suffices, and switches to this one for the turn, as a coroutine: on the same thread, without the
// scheduler.
type turnStack struct {
	next func() (struct{}, bool) // runs a turn; nil until the first one
	stop func()
	work turn // of the current turn; nil means the inbox alone
}

// turn is the work of a turn.
type turn interface {
	// turn is called with the shard locked.
	turn()
}

// run is a turn on the shard's stack. The caller must not hold the lock.
func (sh *shard) run(work turn) {
	sh.mu.Lock()
	sh.switchTo(work)
	for sh.inbox.newest.Load() != nil && sh.mu.TryLock() {
		sh.switchTo(nil)
	}
}

// switchTo runs a turn on the shard's stack, and unlocks the shard.
func (sh *shard) switchTo(work turn) {
	defer sh.mu.Unlock()
	s := &sh.stack
	if s.work = work; s.next == nil {
		s.next, s.stop = iter.Pull(sh.turns)
	}
	if _, ok := s.next(); !ok { // a turn has ended the goroutine of the stack
		sh.turn()
	}
}

// turns runs a turn for each request for a value.
func (sh *shard) turns(yield func(struct{}) bool) {
	for more := true; more; more = yield(struct{}{}) {
		sh.turn()
	}
}

// turn runs a turn with the shard locked. It does not unlock the shard, because that must follow the switch from the
// stack.
func (sh *shard) turn() {
	defer sh.finish()
	sh.begin()
	if work := sh.stack.work; work != nil {
		sh.stack.work = nil
		work.turn()
	}
}

// finish ends a turn, except for the lock. It must be deferred.
func (sh *shard) finish() {
	if v := recover(); v != nil {
		sh.crashed(v)
	}
	sh.conclude()
	sh.signal()
}

// closeStack ends the stack of a shard without connections.
func (sh *shard) closeStack() {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if sh.stack.stop != nil {
		sh.stack.stop()
	}
}
