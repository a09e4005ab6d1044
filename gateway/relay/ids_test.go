package relay

import "testing"

// TestStreamIDsRunOut retires a backend's connection with its last stream, and ends it.
func TestStreamIDsRunOut(t *testing.T) {
	t.Parallel()
	l := newUnaryLoop(t, 100)
	l.call()
	l.back.lastID = maxStreamID - 4
	l.call()
	if n := l.h.up.Conns(); n != 1 {
		t.Errorf("%d connections while there are ids", n)
	}
	l.call()
	if l.back.lastID != maxStreamID || !l.back.ending || l.h.up.Conns() != 0 {
		t.Errorf("last id %d, ending %v, %d connections", l.back.lastID, l.back.ending, l.h.up.Conns())
	}
	if l.h.codes[codeOK] != 3 {
		t.Errorf("%v", l.h.codes)
	}
}
