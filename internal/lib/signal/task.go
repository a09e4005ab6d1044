package signal

import "sync/atomic"

// Task is work without a goroutine of its own: Wake starts one if there is none, and it ends when the work is done. The
// zero value with Run is usable.
type Task struct {
	Run func() // must not panic

	wakes atomic.Int64 // since the goroutine started, less those that a finished Run has served
}

// Wake makes a goroutine call Run, once for any number of calls before it starts. There is never more than one. Wake
// does not block.
func (t *Task) Wake() {
	if t.wakes.Add(1) == 1 {
		go t.work() // ends with Run, for which the owner of the Task waits
	}
}

func (t *Task) work() {
	for n := t.wakes.Load(); n > 0; n = t.wakes.Add(-n) {
		t.Run()
	}
}
