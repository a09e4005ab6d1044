package gateway

import (
	"testing"
	"unsafe"
)

// TestCallStateSize: the state of an open stream fits Go's allocator's size class of 512 bytes. The next class has 576
// bytes, of which 8 are a header.
func TestCallStateSize(t *testing.T) {
	t.Parallel()
	if got := unsafe.Sizeof(callState{}); got > 512 {
		t.Errorf("%d bytes", got)
	}
}
