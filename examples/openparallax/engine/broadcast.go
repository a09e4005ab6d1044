package engine

import (
	"sync"

	openparallaxv1 "github.com/capgate/capgate/proto/openparallax/v1"
)

// broadcaster sends events to all readers of a session.
type broadcaster struct {
	keep bool // streams stay open after the answer

	// mu is held while events are sent, so a single reader that does not read blocks everything.
	mu       sync.RWMutex
	sessions map[string]map[*reader]struct{}
}

// reader is one SendMessage stream.
type reader struct {
	stream openparallaxv1.ClientService_SendMessageServer
	ended  chan struct{} // closed after the last event
	last   sync.Once
	keep   bool
	mu     sync.Mutex // serializes sends
}

func newBroadcaster(keep bool) *broadcaster {
	return &broadcaster{keep: keep, sessions: map[string]map[*reader]struct{}{}}
}

func (b *broadcaster) subscribe(session string, stream openparallaxv1.ClientService_SendMessageServer) *reader {
	r := &reader{stream: stream, ended: make(chan struct{}), keep: b.keep}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.sessions[session] == nil {
		b.sessions[session] = map[*reader]struct{}{}
	}
	b.sessions[session][r] = struct{}{}
	return r
}

func (b *broadcaster) unsubscribe(session string, r *reader) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.sessions[session], r)
	if len(b.sessions[session]) == 0 {
		delete(b.sessions, session)
	}
}

func (b *broadcaster) broadcast(event *openparallaxv1.PipelineEvent) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	for r := range b.sessions[event.GetSessionId()] {
		_ = r.send(event) // the reader has gone
	}
}

// send also ends the stream after a final event, regardless of the message it belongs to.
func (r *reader) send(event *openparallaxv1.PipelineEvent) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	err := r.stream.Send(event)
	switch event.GetEventType() {
	case openparallaxv1.PipelineEventType_RESPONSE_COMPLETE, openparallaxv1.PipelineEventType_ERROR:
		if !r.keep {
			r.last.Do(func() { close(r.ended) })
		}
	}
	return err
}
