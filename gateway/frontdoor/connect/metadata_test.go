package connect

import (
	"net/http"
	"testing"
)

// TestUsualHeadersAllocateNothing: the headers of clients of Connect are no metadata, or have known names. It is not
// parallel, because AllocsPerRun counts the allocations of all goroutines.
func TestUsualHeadersAllocateNothing(t *testing.T) {
	from := http.Header{"Accept": {"*/*"}, "Accept-Encoding": {"gzip"}, "Connect-Protocol-Version": {"1"},
		"Connect-Timeout-Ms": {"5000"}, "Content-Length": {"1"}, "Content-Type": {"application/json"},
		"Traceparent": {"00-1-2-01"}, "User-Agent": {"connect-go/1"}, "X-Request-Id": {"r-1"}}
	names := map[string]bool{}
	if err := eachMetadata(from, func(name, _ string) { names[name] = true }); err != nil || len(names) != 2 ||
		!names["traceparent"] || !names["x-request-id"] {
		t.Fatalf("%v, %v", names, err)
	}
	visit := func(string, string) {}
	if n := testing.AllocsPerRun(100, func() {
		if err := eachMetadata(from, visit); err != nil {
			t.Error(err)
		}
		if _, present := milliseconds(""); present {
			t.Error("no timeout is one")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
