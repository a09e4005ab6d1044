package engine

import (
	"context"
	"sync"
)

// backlog are the events that a client has not been sent yet.
type backlog struct {
	most int
	over chan struct{} // closed when there are more than most bytes of them: then none is kept

	mu     sync.Mutex
	events [][]byte
	bytes  int
	gone   bool // nobody wants more
	ended  bool
	err    error
	news   chan struct{} // has room for one
}

func newBacklog(most int) *backlog {
	return &backlog{most: most, over: make(chan struct{}), news: make(chan struct{}, 1)}
}

// put adds an event. It never waits.
func (b *backlog) put(event []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.gone {
		return
	}
	if b.bytes += len(event); b.bytes > b.most && len(b.events) > 0 {
		b.drop()
		close(b.over)
		return
	}
	b.events = append(b.events, event)
	b.tell()
}

// end says that there are no more events, and how they ended.
func (b *backlog) end(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ended, b.err = true, err
	b.tell()
}

// leave says that nobody wants events any more.
func (b *backlog) leave() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.drop()
}

func (b *backlog) drop() { b.gone, b.events, b.bytes = true, nil, 0 }

func (b *backlog) tell() {
	select {
	case b.news <- struct{}{}:
	default:
	}
}

// next waits for the next event. After the last it is nil, with how they ended. It is for one reader.
func (b *backlog) next(ctx context.Context) ([]byte, error) {
	for {
		b.mu.Lock()
		if len(b.events) > 0 {
			event := b.events[0]
			b.events[0] = nil
			b.events = b.events[1:]
			b.bytes -= len(event)
			b.mu.Unlock()
			return event, nil
		}
		ended, err := b.ended, b.err
		b.mu.Unlock()
		if ended {
			return nil, err
		}
		select {
		case <-b.news:
		case <-b.over:
			return nil, context.Canceled
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}
