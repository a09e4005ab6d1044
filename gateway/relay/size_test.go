package relay

import (
	"testing"
	"unsafe"
)

// TestStreamSize: an open stream fits the size class of 576 bytes of Go's allocator, with 8 bytes of header, and its
// limiter fits the class of 160 bytes. The next classes have 640 and 176 bytes.
func TestStreamSize(t *testing.T) {
	t.Parallel()
	if got := unsafe.Sizeof(Stream{}); got > 576-8 {
		t.Errorf("a stream has %d bytes", got)
	}
	if got := unsafe.Sizeof(limiter{}); got > 160 {
		t.Errorf("a limiter has %d bytes", got)
	}
}
