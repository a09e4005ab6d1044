// Package stream writes responses in pieces: server-sent events (WHATWG HTML §9.2) and lines of JSON.
package stream

import (
	"net/http"
	"sync"
	"time"
)

// Content types of streams.
const (
	Events = "text/event-stream"
	Lines  = "application/x-ndjson"
)

// Beat is a comment in a stream of events. It shows the client and intermediaries that the stream is alive.
const Beat = ":\n\n"

// Writer sends each piece of a response at once. It is safe for concurrent use.
type Writer struct {
	Out     http.ResponseWriter // must fail if the client reads nothing for too long (bodybudget.WriteTimeout)
	Type    string              // Content-Type; empty means the headers are already set
	Cache   string              // Cache-Control, with Type
	Prelude string              // precedes the first piece
	Late    func()              // sets further headers when the response starts; optional

	mu     sync.Mutex
	begun  bool
	failed error // of the first piece that could not be sent; later ones are not tried
}

// Begun reports whether the response has started.
func (s *Writer) Begun() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.begun
}

// Send writes a piece and flushes it. It waits for a slow reader. After an error it always returns that error.
func (s *Writer) Send(piece []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.send(piece)
}

// Beat sends a heartbeat in a stream of events. It does nothing while a piece is being sent.
func (s *Writer) Beat() error {
	if !s.mu.TryLock() {
		return nil
	}
	defer s.mu.Unlock()
	return s.send([]byte(Beat))
}

// send is Send. The caller must hold mu.
func (s *Writer) send(piece []byte) error {
	if s.failed == nil {
		s.failed = s.write(piece)
	}
	return s.failed
}

func (s *Writer) write(piece []byte) error {
	if !s.begun {
		s.begun = true
		s.head()
		piece = append([]byte(s.Prelude), piece...)
	}
	if _, err := s.Out.Write(piece); err != nil {
		return err
	}
	return http.NewResponseController(s.Out).Flush()
}

func (s *Writer) head() {
	if s.Type != "" {
		head := s.Out.Header()
		head.Set("Content-Type", s.Type)
		head.Set("Cache-Control", s.Cache)
		Unbuffered(head)
	}
	if s.Late != nil {
		s.Late()
	}
}

// Unbuffered makes proxies forward each piece of a response at once. nginx, and proxies that read its header, would
// otherwise wait for a full buffer.
func Unbuffered(head http.Header) { head.Set("X-Accel-Buffering", "no") }

// End resets the connection for another request.
func (s *Writer) End() { _ = http.NewResponseController(s.Out).SetWriteDeadline(time.Time{}) }

// Event returns an event. An empty id or name is omitted. data must be a single line; if it is nil, a client stores
// the id and dispatches no event.
func Event(id, name string, data []byte) []byte {
	b := make([]byte, 0, len(id)+len(name)+len(data)+32)
	if id != "" {
		b = append(append(append(b, "id: "...), id...), '\n')
	}
	if name != "" {
		b = append(append(append(b, "event: "...), name...), '\n')
	}
	if data != nil {
		b = append(append(append(b, "data: "...), data...), '\n')
	}
	return append(b, '\n')
}
