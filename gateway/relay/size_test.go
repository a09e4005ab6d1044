package relay

import (
	"testing"
	"unsafe"
)

// TestStreamSize: an open stream fits the size class of 384 bytes of Go's allocator, and its limiter fits the class of
// 160 bytes. The next classes have 416 and 176 bytes.
func TestStreamSize(t *testing.T) {
	t.Parallel()
	if got := unsafe.Sizeof(Stream{}); got > 384 {
		t.Errorf("a stream has %d bytes", got)
	}
	if got := unsafe.Sizeof(limiter{}); got > 160 {
		t.Errorf("a limiter has %d bytes", got)
	}
}

// TestResponsesHoldNoHeader: a response that has begun holds neither its own header nor that of its request, and the
// memory of both is empty for the next request. What remains fits the size class of 1,024 bytes, with a header of 8.
func TestResponsesHoldNoHeader(t *testing.T) {
	t.Parallel()
	few := &webFields{{Name: "authorization", Value: "Bearer secret"}}
	e := &webEnd{}
	e.writer.few, e.writer.fields, e.reply.head.fields = few, few[:1], few[:1]
	e.releaseFields()
	if w := &e.writer; w.few != nil || w.fields != nil || e.reply.head.fields != nil || *few != (webFields{}) {
		t.Errorf("the response has %v, %v and %v; the memory has %v", w.few, w.fields, e.reply.head.fields, few[0])
	}
	if got := unsafe.Sizeof(webEnd{}); got > 1024-8 {
		t.Errorf("a request has %d bytes", got)
	}
}
