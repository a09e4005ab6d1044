package strictjson_test

import (
	"strings"
	"testing"

	"github.com/capgate/capgate/internal/lib/strictjson"
	"github.com/capgate/capgate/internal/testkit/check"
)

// A text that is as slow to read as one can be.
func BenchmarkDense(b *testing.B) {
	text := []byte("[" + strings.Repeat("0,", 4<<10) + "0]")
	b.ReportAllocs()
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		check.Must(b, strictjson.Check(text))
	}
}

func BenchmarkWithin(b *testing.B) {
	w := strictjson.NewWatch("capability_artifact_id", nil)
	b.SetBytes(int64(len(benchmarked)))
	for b.Loop() {
		if w.MayContain(benchmarked) {
			b.Fatal("it is not there")
		}
	}
}
