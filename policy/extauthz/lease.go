package extauthz

import "sync"

// lease is held by those who use something that others may do away with: it ends after
// the last of them.
type lease struct {
	mu      sync.Mutex
	held    int
	retired bool
	end     func() // called once
}

// hold is false when it has ended.
func (l *lease) hold() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.retired && l.held == 0 {
		return false
	}
	l.held++
	return true
}

func (l *lease) release() {
	l.mu.Lock()
	l.held--
	over := l.retired && l.held == 0
	l.mu.Unlock()
	if over {
		l.end()
	}
}

// retire is called once, by whoever does away with it.
func (l *lease) retire() {
	l.mu.Lock()
	l.retired = true
	over := l.held == 0
	l.mu.Unlock()
	if over {
		l.end()
	}
}
