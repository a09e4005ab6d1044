package relay

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/capgate/capgate/gateway/relay/hpack"
)

// TestNamesAreFound: the filter of header names misses no header and no change, whatever the names are.
func TestNamesAreFound(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		s := &Stream{sh: &shard{}, requestHead: &requestHead{head: new(hpack.List)}}
		first, values, changed := map[string]string{}, map[string]int{}, map[string]bool{}
		name := func() string {
			return []string{"", "x", "te", "x-user-id", "x-agent-id"}[r.IntN(5)] + fmt.Sprint(r.IntN(8))
		}
		for i := range r.IntN(24) {
			n, v := name(), fmt.Sprint(i)
			s.head.Append(n, v, classify(n, v))
			if values[n]++; values[n] == 1 {
				first[n] = v
			}
		}
		for range 60 {
			n := name()
			switch r.IntN(8) {
			case 0, 1:
				s.SetHeader(n, "changed")
				changed[n] = true
			case 2:
				s.DropHeader(n)
				dropped := s.editOf(n)
				if (changed[n] || values[n] > 0) && (dropped == nil || !dropped.drop) {
					t.Fatalf("%q of %+v is not dropped", n, s.head.Fields)
				}
				changed[n] = dropped != nil
			}
			v, present := s.Header(n)
			if v != first[n] || present != (values[n] > 0) || s.Contradicts(n) != (values[n] > 1) ||
				(len(s.AppendHeader(nil, n)) > 0) != present || (s.editOf(n) != nil) != changed[n] {
				t.Fatalf("%q: %q, %v, of %+v", n, v, present, s.head.Fields)
			}
		}
		if s.names, s.edited = 0, 0; s.editOf(name()) != nil {
			t.Fatal("an empty set has a name")
		}
	}
	var none Stream
	if _, present := none.Header("x"); present || none.Contradicts("x") {
		t.Error("a stream without a request has a header")
	}
}
