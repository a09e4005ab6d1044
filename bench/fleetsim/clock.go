package main

import (
	"container/heap"
	"time"
)

// clock runs events in the order of their times.
type clock struct {
	now    time.Time
	events events
	count  uint64 // scheduled so far; orders events of one time
}

type event struct {
	at    time.Time
	order uint64
	do    func()
}

// at schedules do for time t, or for now if t has passed.
func (c *clock) at(t time.Time, do func()) {
	if t.Before(c.now) {
		t = c.now
	}
	c.count++
	heap.Push(&c.events, event{t, c.count, do})
}

// after schedules do for d from now.
func (c *clock) after(d time.Duration, do func()) { c.at(c.now.Add(d), do) }

// pass advances the clock by d and runs the events that fall due.
func (c *clock) pass(d time.Duration) {
	end := c.now.Add(d)
	for len(c.events) > 0 && !c.events[0].at.After(end) {
		e := heap.Pop(&c.events).(event)
		c.now = e.at
		e.do()
	}
	c.now = end
}

// events is a heap, ordered by time.
type events []event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	if e[i].at.Equal(e[j].at) {
		return e[i].order < e[j].order
	}
	return e[i].at.Before(e[j].at)
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	last := len(*e) - 1
	x := (*e)[last]
	(*e)[last] = event{}
	*e = (*e)[:last]
	return x
}
