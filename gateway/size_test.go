package gateway

import (
	"testing"
	"unsafe"
)

// TestCallStateSize: the state of an open stream fits Go's allocator's size class of 576 bytes, of which 8 are a
// header; the next class is 640.
func TestCallStateSize(t *testing.T) {
	t.Parallel()
	if got := unsafe.Sizeof(callState{}); got > 576-8 {
		t.Errorf("%d bytes", got)
	}
}
