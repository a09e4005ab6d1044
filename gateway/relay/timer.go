package relay

import "time"

const (
	tick       = int64(10 * time.Millisecond)
	wheelSlots = 512 // a power of two; one revolution takes 5.12 s
)

// timer is an intrusive entry of a wheel, embedded by its owner.
type timer struct {
	next, prev *timer
	when       int64 // nanoseconds on the shard's clock; 0 means not set
	expired    func()
}

// wheel holds a shard's timers. Setting and clearing one costs a few nanoseconds, which matters because every call has
// a deadline that hardly ever passes. An entry further away than one revolution stays in its slot and is checked once
// per revolution.
type wheel struct {
	slots [wheelSlots]timer // list heads
	count int
	done  int64 // last processed tick
	next  int64 // first tick whose slot may have a timer; too early after a clear
}

func (w *wheel) set(t *timer, when int64) {
	if t.when != 0 {
		w.clear(t)
	}
	t.when = when
	n := max(when/tick+1, w.done+1)
	head := &w.slots[n&(wheelSlots-1)]
	n = w.done + 1 + (n-w.done-1)&(wheelSlots-1) // the first tick of its slot
	if w.count == 0 || n < w.next {
		w.next = n
	}
	t.prev, t.next = head, head.next
	head.next = t
	if t.next != nil {
		t.next.prev = t
	}
	w.count++
}

func (w *wheel) clear(t *timer) {
	if t.when == 0 {
		return
	}
	t.prev.next = t.next
	if t.next != nil {
		t.next.prev = t.prev
	}
	t.next, t.prev, t.when = nil, nil, 0
	w.count--
}

// run calls every timer that is due at now. A timer may set and clear others, and itself.
func (w *wheel) run(now int64) {
	last := now / tick
	first := max(w.done+1, last-wheelSlots+1)
	w.done = last
	for n := first; n <= last; n++ {
		head := &w.slots[n&(wheelSlots-1)]
		for t := head.next; t != nil; {
			if t.when > now {
				t = t.next
				continue
			}
			w.clear(t)
			t.expired()
			t = head.next // the list may have changed, so start again
		}
	}
	for w.next = last + 1; w.next < last+wheelSlots && w.slots[w.next&(wheelSlots-1)].next == nil; {
		w.next++
	}
}

// wait returns the time until the next slot that may have a timer; 0 means no timer is set.
func (w *wheel) wait(now int64) time.Duration {
	if w.count == 0 {
		return 0
	}
	return time.Duration(max(w.next*tick-now, 1))
}
