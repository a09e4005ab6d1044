package extauthz

import "sync"

// lease counts the users of a resource that can be retired. The resource ends after the last of them.
type lease struct {
	mu      sync.Mutex
	users   int
	retired bool
	onEnd   func() // called once
}

// acquire returns false if the resource has ended.
func (l *lease) acquire() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.retired && l.users == 0 {
		return false
	}
	l.users++
	return true
}

func (l *lease) release() {
	l.mu.Lock()
	l.users--
	over := l.retired && l.users == 0
	l.mu.Unlock()
	if over {
		l.onEnd()
	}
}

// retire is called once, when the resource is replaced.
func (l *lease) retire() {
	l.mu.Lock()
	l.retired = true
	over := l.users == 0
	l.mu.Unlock()
	if over {
		l.onEnd()
	}
}
