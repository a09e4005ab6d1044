package gateway

import (
	"testing"
	"unsafe"
)

// TestCallStateSize: the state of an open stream fits Go's allocator's size class of 1,152 bytes, of which 8
// are a header; the next class is 1,280.
func TestCallStateSize(t *testing.T) {
	t.Parallel()
	if got := unsafe.Sizeof(callState{}); got > 1152-8 {
		t.Errorf("%d bytes", got)
	}
}
