package toolset_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/toolset"
)

// BenchmarkSchema measures the removal of a fixed argument from a schema of 4 KiB. Each list of tools does it for each
// tool with fixed arguments, so it must stay cheap.
func BenchmarkSchema(b *testing.B) {
	fixed, err := toolset.ParseArguments([]byte(`{"region":"eu"}`))
	check.Must(b, err)
	e := toolset.Entry{Capability: "c", Tool: "t", Arguments: fixed}
	var properties []string
	for i := range 32 {
		properties = append(properties, fmt.Sprintf(`"argument_%d":{"type":"string","description":"%s"}`, i,
			strings.Repeat("what it does ", 6)))
	}
	schema := []byte(`{"type":"object","required":["region"],"properties":{"region":{"type":"string"},` +
		strings.Join(properties, ",") + `}}`)
	b.SetBytes(int64(len(schema)))
	b.ReportAllocs()
	for b.Loop() {
		e.Schema(schema)
	}
}

// BenchmarkOf measures the list of the toolsets of a caller beside those of many tenants. Each request of the registry
// makes it.
func BenchmarkOf(b *testing.B) {
	all := make([]toolset.Toolset, toolset.Kind.Objects)
	for i := range all {
		all[i] = toolset.Toolset{Name: "s", Tenants: []string{fmt.Sprint(i)}}
	}
	sets := toolset.New(all)
	b.ReportAllocs()
	for b.Loop() {
		if found := sets.Of(toolset.Caller{Tenant: "7"}); len(found) != 1 {
			b.Fatalf("%d toolsets", len(found))
		}
	}
}
