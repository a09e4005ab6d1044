package redisstore

import (
	"reflect"
	"strings"
	"testing"

	"github.com/capgate/capgate/health"
)

func FuzzHealthText(f *testing.F) {
	f.Add("weather 10.0.0.7:50051 0")
	f.Add("1753000000000 1753000000001 2 1 1 77 gw-1 connection refused: by whom?")
	f.Add("12 ffffffffffffffff 1500")
	f.Add("page 7 1753000000000001 1753000000000000\nweather a:1 1\n1 2 1 0 2 3 gw-1 fine\nweather b:1 0\n")
	f.Add("page 7 2 1 1753000000000\n00weather 0010.0.0.7:1 00gw-1 5 10 ff 1 0 2 1 2 refused\n70 648 40 6 1 0 1")
	f.Add("left gw-1")
	f.Fuzz(func(t *testing.T, s string) {
		if k, ok := decodeKey(s); ok {
			if again, _ := encodeKey(k); again != s {
				t.Errorf("key %q became %q", s, again)
			}
		}
		if v, ok := decodeObservation(s); ok {
			text := strings.Join(strings.SplitN(s, " ", 3)[:2], " ") + " " + encodeObservation(v)
			if again, ok := decodeObservation(text); !ok || v.State != health.Up && v.State != health.Down ||
				again.Episode != v.Episode || again.By != v.By {
				t.Errorf("vote %q: %+v became %+v; ok %+v", s, v, again, ok)
			}
		}
		if d, ok := decodeDigest(s); ok {
			if again, ok := decodeDigest(encodeDigest(d)); !ok || !reflect.DeepEqual(d, again) {
				t.Errorf("digest %q: %+v became %+v; ok %+v", s, d, again, ok)
			}
		}
		if n, ok := decodeEvent(s); ok && (n.Left == "" && n.Version == 0 || n.Shard < 0 || n.Shard >= health.Shards ||
			len(n.Entries) > len(s)) {
			t.Errorf("notice %q: %+v", s, n)
		}
	})
}
