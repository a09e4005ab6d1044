package engine

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/capgate/capgate/internal/lib/signal"
)

// errBehind is the error of next after events were dropped.
var errBehind = errors.New("events were dropped: the reader is too far behind")

// backlog holds the events that have not been sent to the client yet.
type backlog struct {
	most int
	over chan struct{} // closed when the events exceed most bytes; all but the call's first event are then dropped

	mu     sync.Mutex
	events [][]byte
	bytes  int
	taken  chan struct{} // closed when the reader has taken its first event
	begun  bool          // taken is closed
	gone   bool          // events were dropped, and further ones are too
	ended  bool
	err    error
	news   chan struct{} // capacity 1
}

func newBacklog(most int) *backlog {
	return &backlog{most: most, over: make(chan struct{}), news: make(chan struct{}, 1), taken: make(chan struct{})}
}

// firstTaken is the maximum wait of put for a reader that has not started.
const firstTaken = 100 * time.Millisecond

// put adds an event. It does not wait for the reader, except for its start: the sending goroutine may not have run
// yet, which does not mean that the reader is slow. The first event of a call is never dropped.
func (b *backlog) put(event []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.begun && !b.gone && b.bytes+len(event) > b.most && len(b.events) > 0 {
		b.mu.Unlock()
		select {
		case <-b.taken:
		case <-time.After(firstTaken):
		}
		b.mu.Lock()
	}
	if b.gone {
		return
	}
	if b.bytes += len(event); b.bytes > b.most && len(b.events) > 0 {
		first := b.events[:1:1]
		b.drop()
		if !b.begun {
			b.events, b.bytes = first, len(first[0])
		}
		close(b.over)
		return
	}
	b.events = append(b.events, event)
	b.signal()
}

// end marks the end of the events, with their error.
func (b *backlog) end(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ended, b.err = true, err
	b.signal()
}

// leave drops the events when the reader leaves.
func (b *backlog) leave() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.drop()
}

func (b *backlog) drop() {
	b.gone, b.events, b.bytes = true, nil, 0
	b.signal()
}

func (b *backlog) signal() { signal.Wake(b.news) }

// next waits for the next event. After the last event it returns the error of end, or io.EOF if that is nil; if events
// were dropped, errBehind. It must be used by one reader only.
func (b *backlog) next(ctx context.Context) ([]byte, error) {
	for {
		b.mu.Lock()
		if len(b.events) > 0 {
			event := b.take()
			b.mu.Unlock()
			return event, nil
		}
		gone, ended, err := b.gone, b.ended, b.err
		b.mu.Unlock()
		switch {
		case gone:
			return nil, errBehind
		case ended && err == nil:
			return nil, io.EOF
		case ended:
			return nil, err
		}
		select {
		case <-b.news:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// take removes the first event.
func (b *backlog) take() []byte {
	event := b.events[0]
	b.events[0] = nil
	b.events = b.events[1:]
	b.bytes -= len(event)
	if !b.begun {
		b.begun = true
		close(b.taken)
	}
	return event
}
