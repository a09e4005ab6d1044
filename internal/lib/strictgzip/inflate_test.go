package strictgzip_test

import (
	"bytes"
	"errors"
	"io"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/capgate/capgate/internal/lib/strictgzip"
	"github.com/capgate/capgate/internal/testkit/check"
)

// TestInflate: a text of at most most bytes is read, and its memory is charged before it grows.
func TestInflate(t *testing.T) {
	t.Parallel()
	const most = 100_000
	long, full := strings.Repeat("a", most), errors.New("full")
	for name, test := range map[string]struct {
		packed []byte
		room   int
		want   string
		err    error
	}{
		"short":                  {pack(t, "hello"), most, "hello", nil},
		"empty":                  {pack(t, ""), most, "", nil},
		"as long as it may be":   {pack(t, long), 2 * most, long, nil},
		"a byte longer":          {pack(t, long+"a"), 2 * most, "", strictgzip.ErrTooLong},
		"without room":           {pack(t, long), most / 2, "", full},
		"two members":            {slices.Concat(pack(t, "a"), pack(t, "b")), most, "", strictgzip.ErrFollowed},
		"two, of which one ends": {slices.Concat(pack(t, long[:512]), pack(t, "b")), most, "", strictgzip.ErrFollowed},
		"cut off":                {pack(t, long)[:50], 2 * most, "", io.ErrUnexpectedEOF},
		"nothing":                {nil, most, "", io.EOF},
	} {
		held := 0
		text, err := strictgzip.Inflate(test.packed, most, func(n int) error {
			if held = n; n > test.room {
				return full
			}
			return nil
		})
		if string(text) != test.want || !errors.Is(err, test.err) || held < len(text) {
			t.Errorf("%s: %d bytes, of which %d are charged, %v; want %v", name, len(text), held, err, test.err)
		}
		if text, err = strictgzip.Inflate(test.packed, most, nil); test.err == nil &&
			(err != nil || string(text) != test.want) {
			t.Errorf("%s, without charge: %d bytes, %v", name, len(text), err)
		}
	}
}

// TestReadersAreReused: the tables and windows of decoders, of more than 40 KiB, are reused for most texts.
func TestReadersAreReused(t *testing.T) { //nolint:paralleltest // it counts the memory of the process
	packed := pack(t, "hello")
	const texts, each = 200, 20 << 10
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range texts {
		text, err := strictgzip.Inflate(packed, 100, nil)
		check.Must(t, err)
		if !bytes.Equal(text, []byte("hello")) {
			t.Error(text)
		}
	}
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > texts*each {
		t.Errorf("%d texts have taken %d bytes", texts, n)
	}
}
