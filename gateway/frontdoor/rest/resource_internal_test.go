package rest

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/capgate/capgate/internal/lib/accept"
)

// TestContentOf: the content of a resource has one reading. Bytes that are not base64 are an error of the server. It
// is found before the response begins.
func TestContentOf(t *testing.T) {
	t.Parallel()
	const octets = "application/octet-stream"
	for result, want := range map[string]struct{ accept, typ, bytes string }{
		`{"contents":[{"uri":"a:b","mimeType":"image/png","blob":"AP8H"}]}`:  {"image/*", "image/png", "\x00\xff\x07"},
		`{"contents":[{"uri":"a:b","mimeType":"image/png","blob":"\/w=="}]}`: {octets, octets, "\xff"},
		`{"contents":[{"uri":"a:b","blob":"AP8H"}]}`:                         {octets, octets, "\x00\xff\x07"},
		`{"contents":[{"uri":"a:b","blob":""}]}`:                             {octets, octets, ""},
		`{"contents":[{"uri":"a:b","mimeType":"a b","blob":"AP8H"}]}`:        {octets, octets, "\x00\xff\x07"},
		`{"contents":[{"uri":"a:b","mimeType":"text/css;charset=a","text":"é"}]}`: {"text/css",
			"text/css; charset=utf-8", "é"},
		`{"contents":[{"uri":"a:b","mimeType":"a b","text":"é"}]}`: {"text/*",
			"text/plain; charset=utf-8", "é"},
		`{"contents":[{"uri":"a:b","text":"{}","mimeType":"application/json"}]}`: {"application/json", "", ""},
		`{"contents":[{"uri":"a:b","text":"a"},{"uri":"a:c","text":"b"}]}`:       {"*/*", "", ""},
		`{"contents":[]}`: {"*/*", "", ""},
		`{"contents":[{"uri":"a:b","blob":"AP8"}]}`:            {octets, "not valid", ""},
		`{"contents":[{"uri":"a:b","blob":"AP8H="}]}`:          {octets, "not valid", ""},
		`{"contents":[{"uri":"a:b","blob":"AP9="}]}`:           {octets, "not valid", ""}, // bits after the last byte
		`{"contents":[{"uri":"a:b","blob":"AP-_"}]}`:           {octets, "not valid", ""},
		`{"contents":[{"uri":"a:b","blob":"AP8H","blob":""}]}`: {octets, "not valid", ""},
	} {
		c, err := contentOf([]byte(result))
		if err != nil {
			if !strings.Contains(err.Error(), want.typ) || want.typ == "" {
				t.Errorf("%s: %v", result, err)
			}
			continue
		}
		typ := c.preferred(accept.Ranges(http.Header{"Accept": {want.accept}}, "Accept"), 0)
		text, err := io.ReadAll(c.bytes())
		if typ != want.typ || err != nil || typ != "" && (string(text) != want.bytes || c.size != len(text)) {
			t.Errorf("%s as %s: %q of %d bytes as %q, %v", result, want.accept, text, c.size, typ, err)
		}
	}
}
