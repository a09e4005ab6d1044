package router

// Kept is for how many capabilities something is in memory.
func (a *Limits) Kept() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.limiters)
}
