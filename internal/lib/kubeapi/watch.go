package kubeapi

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/capgate/capgate/internal/lib/backoff"
)

// event is a metav1.WatchEvent.
type event struct {
	Type   string          `json:"type"`
	Object json.RawMessage `json:"object"`
}

// watching is one watch: a response that lasts for minutes.
type watching struct {
	version string // of the last event
	alive   bool   // it had an event, or lasted for a while
}

// lasting is the time after which a watch without events counts as a good one.
const lasting = 5 * time.Second

// watch applies events from a version on, until the watch ends. It returns nil for a watch that the server ended in
// its usual way.
func (m *Mirror[T]) watch(ctx context.Context, w *watching) error {
	lifetime := backoff.Jitter(m.o.Watch, 0.3)
	timed, cancel := context.WithTimeout(ctx, lifetime+m.client.config.Timeout)
	defer cancel()
	ctx, giveUp := context.WithCancelCause(timed)
	query := m.resource.query()
	query.Set("watch", "true")
	query.Set("allowWatchBookmarks", "true")
	query.Set("resourceVersion", w.version)
	query.Set("timeoutSeconds", strconv.Itoa(max(int(lifetime/time.Second), 1)))
	// The response begins at once, also of a watch without events.
	begun := time.AfterFunc(m.client.config.Timeout, func() {
		giveUp(fmt.Errorf("no response within %s", m.client.config.Timeout))
	})
	body, err := m.client.get(ctx, m.resource.path(), query, m.accept("PartialObjectMetadata"))
	if begun.Stop(); err != nil {
		giveUp(nil)
		return fmt.Errorf("watch %s: %w", m.resource, err)
	}
	defer body.Close()
	defer giveUp(nil)
	m.works()
	began := time.Now()
	lines := bufio.NewScanner(body)
	lines.Buffer(nil, maxEvent)
	for lines.Scan() {
		if err = m.apply(lines.Bytes(), w); err != nil {
			return fmt.Errorf("watch %s: %w", m.resource, err)
		}
		w.alive = true
	}
	w.alive = w.alive || time.Since(began) >= lasting
	if err = lines.Err(); err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("watch %s: %w", m.resource, err)
	}
	return nil
}

// apply applies one event.
func (m *Mirror[T]) apply(line []byte, w *watching) error {
	var e event
	if err := json.Unmarshal(line, &e); err != nil {
		return fmt.Errorf("the event cannot be decoded: %w", err)
	}
	if e.Type == "ERROR" {
		var s status
		if err := json.Unmarshal(e.Object, &s); err != nil {
			return fmt.Errorf("the event ERROR has no valid status: %w", err)
		}
		return s.error()
	}
	var object T
	if err := json.Unmarshal(e.Object, &object); err != nil {
		return fmt.Errorf("event %.20q: %w", e.Type, err)
	}
	meta := m.meta(&object)
	if meta.ResourceVersion == "" {
		return fmt.Errorf("event %.20q has no version", e.Type)
	}
	if err := meta.trim(&m.o); err != nil {
		return err
	}
	switch e.Type {
	case "BOOKMARK":
	case "ADDED", "MODIFIED":
		if !m.put(meta.Key(), object) {
			return m.tooMany()
		}
	case "DELETED":
		m.remove(meta.Key())
	default:
		return fmt.Errorf("unknown event %.20q", e.Type)
	}
	w.version = meta.ResourceVersion
	m.works()
	return nil
}
