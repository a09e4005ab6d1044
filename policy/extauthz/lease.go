package extauthz

import "sync"

// lease counts the users of a resource that can be retired. The resource ends after the last of them.
type lease struct {
	mu      sync.Mutex
	held    int
	retired bool
	end     func() // called once
}

// hold returns false if the resource has ended.
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

// retire is called once, when the resource is replaced.
func (l *lease) retire() {
	l.mu.Lock()
	l.retired = true
	over := l.held == 0
	l.mu.Unlock()
	if over {
		l.end()
	}
}
