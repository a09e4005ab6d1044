package relay

import "testing"

// TestStreamIDsRunOut: a connection to a backend takes no further streams after the last stream id, and is closed when
// they have ended.
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
