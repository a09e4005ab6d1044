package redistest

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync"
)

// Main is the TB of a TestMain that starts servers for all tests:
//
//	func TestMain(m *testing.M) {
//		main := &redistest.Main{}
//		status := m.Run()
//		main.Close()
//		os.Exit(status)
//	}
type Main struct {
	mu       sync.Mutex
	cleanups []func()
}

// Helper implements TB.
func (m *Main) Helper() {}

// Cleanup implements TB: f runs when Close is called.
func (m *Main) Cleanup(f func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.cleanups = append(m.cleanups, f)
}

// Fatalf implements TB. It ends the process.
func (m *Main) Fatalf(format string, args ...any) {
	m.Logf(format, args...)
	m.Close()
	os.Exit(1)
}

// Logf implements TB.
func (m *Main) Logf(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }

// Failed implements TB.
func (m *Main) Failed() bool { return false }

// Context implements TB.
func (m *Main) Context() context.Context { return context.Background() }

// Close runs all cleanups.
func (m *Main) Close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, f := range slices.Backward(m.cleanups) {
		f()
	}
	m.cleanups = nil
}
