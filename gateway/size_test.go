package gateway

import (
	"testing"
	"unsafe"
)

// TestCallStateSize holds what each open stream holds to a size class of Go's allocator, 1,152 bytes, of which it takes
// 8 for a header; the next one is 1,280.
func TestCallStateSize(t *testing.T) {
	t.Parallel()
	if got := unsafe.Sizeof(callState{}); got > 1152-8 {
		t.Errorf("%d bytes", got)
	}
}
