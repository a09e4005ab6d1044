package gatewaytest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"sync"
	"testing"

	"github.com/capgate/capgate/internal/testkit/check"
)

// Log is the log of a gateway.
type Log struct {
	mu   sync.Mutex
	text []byte
	grew chan struct{} // closed, and replaced, by every Write
}

// NewLog returns an empty Log.
func NewLog() *Log { return &Log{grew: make(chan struct{})} }

// Write appends whole lines.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, p...)
	close(l.grew)
	l.grew = make(chan struct{})
	return len(p), nil
}

func (l *Log) read() (text []byte, grew <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return bytes.Clone(l.text), l.grew
}

// String returns the whole log.
func (l *Log) String() string {
	text, _ := l.read()
	return string(text)
}

// Line is one line of the log, by its attributes.
type Line map[string]any

// Text returns a string attribute; "" if it is absent.
func (l Line) Text(key string) string {
	s, _ := l[key].(string)
	return s
}

// Wait waits for a piece of text.
func (l *Log) Wait(t testing.TB, part string) {
	t.Helper()
	check.UntilEvent(t, fmt.Sprintf("%q in the log", part), func() (bool, []byte, <-chan struct{}) {
		text, grew := l.read()
		return bytes.Contains(text, []byte(part)), text, grew
	})
}

// Calls waits for the lines of n calls, and returns all lines of calls.
func (l *Log) Calls(t testing.TB, n int) (calls []Line) {
	t.Helper()
	check.UntilEvent(t, fmt.Sprintf("%d calls in the log", n), func() (bool, []byte, <-chan struct{}) {
		text, grew := l.read()
		calls = callLines(t, text)
		return len(calls) >= n, text, grew
	})
	return calls
}

func callLines(t testing.TB, text []byte) []Line {
	t.Helper()
	var calls []Line
	for line := range bytes.Lines(text) {
		var attributes Line
		if err := json.Unmarshal(line, &attributes); err != nil {
			t.Fatalf("a line of the log is not JSON: %v: %s", err, line)
		}
		if attributes.Text("msg") == "call" {
			calls = append(calls, attributes)
		}
	}
	return calls
}
