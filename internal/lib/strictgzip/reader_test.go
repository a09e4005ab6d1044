package strictgzip_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"slices"
	"testing"
	"testing/iotest"

	"github.com/capgate/capgate/internal/lib/strictgzip"
	"github.com/capgate/capgate/internal/testkit/check"
)

func pack(t testing.TB, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
	check.Must(t, w.Close())
	return b.Bytes()
}

func read(from io.Reader) (string, error) {
	r, err := strictgzip.NewReader(from)
	if err != nil {
		return "", err
	}
	text, err := io.ReadAll(r)
	return string(text), err
}

// TestReader: one member is read, from whatever source, and nothing may follow it.
func TestReader(t *testing.T) {
	t.Parallel()
	one, broken := pack(t, "hello"), errors.New("broken")
	for name, test := range map[string]struct {
		packed []byte
		want   error
	}{
		"one member":            {one, nil},
		"an empty one":          {pack(t, ""), nil},
		"two":                   {slices.Concat(one, one), strictgzip.ErrFollowed},
		"an empty one after it": {slices.Concat(one, pack(t, "")), strictgzip.ErrFollowed},
		"one after an empty":    {slices.Concat(pack(t, ""), one), strictgzip.ErrFollowed},
		"zeroes after it":       {slices.Concat(one, make([]byte, 512)), strictgzip.ErrFollowed},
		"a byte after it":       {append(slices.Clone(one), 'x'), strictgzip.ErrFollowed},
		"cut off":               {one[:len(one)-1], io.ErrUnexpectedEOF},
		"another sum":           {slices.Concat(one[:len(one)-8], make([]byte, 8)), gzip.ErrChecksum},
		"no gzip":               {[]byte("hello, hello"), gzip.ErrHeader},
		"nothing":               {nil, io.EOF},
	} {
		for how, from := range map[string]io.Reader{
			"bytes": bytes.NewReader(test.packed), "a reader": io.MultiReader(bytes.NewReader(test.packed)),
			"byte by byte": iotest.OneByteReader(bytes.NewReader(test.packed)),
		} {
			text, err := read(from)
			if !errors.Is(err, test.want) || err == nil && text != "hello" && text != "" {
				t.Errorf("%s, of %s: %q, %v; want %v", name, how, text, err, test.want)
			}
		}
	}
	r, err := strictgzip.NewReader(bytes.NewReader(append(slices.Clone(one), 'x')))
	check.Must(t, err)
	for range 3 {
		if _, err = io.Copy(io.Discard, r); !errors.Is(err, strictgzip.ErrFollowed) {
			t.Errorf("the end, more than once: %v", err)
		}
	}
	if _, err := read(io.MultiReader(bytes.NewReader(one), iotest.ErrReader(broken))); !errors.Is(err, broken) {
		t.Errorf("of a source that breaks after the member: %v", err)
	}
}
