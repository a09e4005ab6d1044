// Package signal wakes goroutines that wait for work.
package signal

// Wake leaves a signal in a channel that has room for one, unless it has one already. It does not block. The goroutine
// that receives the signal finds all work that was added before Wake was called.
func Wake(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
