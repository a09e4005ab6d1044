package router

// Kept returns the number of capabilities with state in memory.
func (a *Limits) Kept() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.limiters)
}
