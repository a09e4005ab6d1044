package relay

import (
	"testing"
	"unsafe"
)

// TestStreamSize: an open stream fits Go's allocator's size class of 576 bytes, of which 8 are a header, and its
// limiter that of 160 bytes. The next classes are 640 and 176.
func TestStreamSize(t *testing.T) {
	t.Parallel()
	if got := unsafe.Sizeof(Stream{}); got > 576-8 {
		t.Errorf("a stream has %d bytes", got)
	}
	if got := unsafe.Sizeof(limiter{}); got > 160 {
		t.Errorf("a limiter has %d bytes", got)
	}
}
