package peek

import (
	"bytes"
	"compress/gzip"
	"testing"

	"github.com/capgate/capgate/gateway/filter"
	"github.com/capgate/capgate/internal/call"
)

func TestInflate(t *testing.T) {
	t.Parallel()
	const limit = 1 << 20
	in := NewReader(Config{MaxMessage: limit})
	packed := func(n int) []byte {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		_, _ = w.Write(make([]byte, n))
		_ = w.Close()
		return b.Bytes()
	}
	for name, c := range map[string]struct {
		msg     []byte
		size    int
		refusal *call.Refusal
	}{
		"empty":         {packed(0), 0, nil},
		"at the limit":  {packed(limit), limit, nil},
		"over it":       {packed(limit + 1), 0, rejectedTooLong},
		"a bomb":        {packed(16 << 20), 0, rejectedTooLong},
		"not gzip":      {[]byte("plain"), 0, filter.Malformed},
		"cut off":       {packed(1000)[:15], 0, filter.Malformed},
		"nothing there": {nil, 0, filter.Malformed},
		"two members":   {append(packed(1000), packed(1000)...), 0, rejectedMembers},
		"an empty one":  {append(packed(0), packed(0)...), 0, rejectedMembers},
		"bytes after":   {append(packed(1000), 0, 0, 0, 0), 0, rejectedMembers},
		"a longer one":  {append(packed(1000)[:len(packed(1000))-4], 0, 0, 0, 0), 0, rejectedMembers},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			size, refusal := in.size(c.msg)
			var plain []byte
			if refusal == nil {
				plain, refusal = inflate(c.msg, size)
			}
			if len(plain) != c.size || refusal != c.refusal {
				t.Errorf("%d bytes, %v; want %d, %v", len(plain), refusal, c.size, c.refusal)
			}
		})
	}
}
