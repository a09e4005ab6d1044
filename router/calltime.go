package router

import "time"

// callTime estimates the time that a fleet's calls need at least, from their first byte at a backend to their end:
// nine of ten need more. Calls with less time left are very likely to do work that is lost.
type callTime struct{ expected time.Duration } // 0: unknown

// observe takes the time of a call; 0: unknown. The estimate falls by a quarter for a faster call, and rises nine
// times less for a slower one. It thus stays where a tenth of the calls are faster.
func (t *callTime) observe(took time.Duration) {
	switch e := t.expected; {
	case took <= 0:
	case e == 0:
		t.expected = took
	case took < e:
		t.expected = max(e-e/4, took)
	default:
		t.expected = min(e+e/36+1, took)
	}
}
