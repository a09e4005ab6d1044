// Package storetest has the tests of every history.Store, and a store in memory that passes them.
package storetest

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/capgate/capgate/internal/history"
)

// Memory is a history.Store in memory. The zero value is empty.
type Memory struct {
	Fails func() error // the result of every method if it is not nil; optional

	mu    sync.Mutex
	steps map[history.Step]map[string]history.Point
	marks []history.Mark
}

var _ history.Store = (*Memory)(nil)

func (m *Memory) err() error {
	if m.Fails == nil {
		return nil
	}
	return m.Fails()
}

// Add implements history.Store.
func (m *Memory) Add(_ context.Context, entries []history.Entry, series int) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.err(); err != nil {
		return err
	}
	if m.steps == nil {
		m.steps = map[history.Step]map[string]history.Point{}
	}
	for _, e := range entries {
		at := m.steps[e.Step]
		if at == nil {
			at = map[string]history.Point{}
			m.steps[e.Step] = at
		}
		field := e.Series
		if _, known := at[field]; !known && len(at) >= series {
			field = e.Other
		}
		sum := at[field]
		more, _ := history.ParsePoint(e.Text)
		sum.Reasons = maps.Clone(sum.Reasons)
		sum.Add(&more)
		at[field] = sum
	}
	return nil
}

// Points implements history.Store.
func (m *Memory) Points(_ context.Context, series string, steps []history.Step) (texts []string, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range steps {
		text := ""
		if p, there := m.steps[s][series]; there {
			text = p.Text()
		}
		texts = append(texts, text)
	}
	return texts, m.err()
}

// All implements history.Store.
func (m *Memory) All(_ context.Context, at history.Step) (map[string]string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	texts := map[string]string{}
	for field, p := range m.steps[at] {
		texts[field] = p.Text()
	}
	return texts, m.err()
}

// Mark implements history.Store.
func (m *Memory) Mark(_ context.Context, mark *history.Mark) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.marks = append(m.marks, *mark)
	return m.err()
}

// Marks implements history.Store.
func (m *Memory) Marks(context.Context) ([]history.Mark, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	marks := slices.Clone(m.marks)
	slices.Reverse(marks)
	return marks, m.err()
}
