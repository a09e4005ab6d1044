package manifest_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/capgate/capgate/internal/manifest"
	"github.com/capgate/capgate/internal/testkit/check"
)

// withTools returns a manifest with tools of many arguments.
func withTools(tools, arguments int, argument string) []byte {
	var b strings.Builder
	b.WriteString("id: weather\nimage: ghcr.io/example/weather:1\ntools:\n")
	for i := range tools {
		fmt.Fprintf(&b, "  - {name: t%d, description: d, input_schema: {type: object, properties: {", i)
		for j := range arguments {
			fmt.Fprintf(&b, "p%d: %s, ", j, argument)
		}
		b.WriteString("}}}\n")
	}
	return []byte(b.String())
}

// TestSize: Size is at least the memory of a manifest, and ParseWithin keeps to a bound of it. A large manifest as
// people write them is within that of announced ones.
func TestSize(t *testing.T) { //nolint:paralleltest // it measures the heap of the process
	for name, text := range map[string][]byte{
		"anything":  withTools(200, 90, "{}"),
		"booleans":  withTools(200, 90, "true"),
		"described": withTools(200, 10, "{type: string, description: The name of a city.}"),
		"bare":      withTools(1000, 0, ""),
	} {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		m, err := manifest.Parse("m.yaml", text)
		if err != nil {
			t.Error(name, err)
			continue
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		heap := int(after.HeapAlloc) - int(before.HeapAlloc)
		t.Logf("%s: %d bytes, %d of heap, size %d", name, len(text), heap, m.Size())
		if heap > m.Size()+1<<20 {
			t.Errorf("%s: %d bytes of heap, size %d", name, heap, m.Size())
		}
		_, err = manifest.ParseWithin("m.yaml", text, m.Size()/2)
		if err == nil || !strings.Contains(err.Error(), "take too much memory") {
			t.Errorf("%s: %v", name, err)
		}
	}
	const announced = 32 << 20
	_, err := manifest.ParseWithin("m.yaml", withTools(1000, 10, "{type: string, description: The name of a city.}"),
		announced)
	check.Must(t, err)
}
