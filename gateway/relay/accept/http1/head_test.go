package http1

import (
	"bufio"
	"bytes"
	"io"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/capgate/capgate/internal/testkit/check"
)

// common holds requests of the subset.
var common = []string{
	"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
	"GET /a/%20b?c=d%2F&e HTTP/1.1\r\nhost: a.example:80\r\nx-MANY: 1\r\nX-Many:2\r\nX-Empty:\r\nX-Empty: \r\n\r\n",
	"POST //a/../b HTTP/1.1\r\nHost: [::1]:80\r\nContent-Length: 3\r\nConnection: Keep-Alive\r\n\r\nabcGET / HTTP/1.1",
	"PUT / HTTP/1.1\r\nContent-Length: 0\r\nCookie: a=\"b c\"; d=1\r\nHost: a_b.~\r\n\r\n",
	"DELETE /x HTTP/1.1\r\nHost: a\r\nContent-Length: 007\r\n\r\n1234567",
	"OPTIONS /x HTTP/1.1\r\nHost: a\r\nAuthorization:   Bearer  x.y\r\n\r\n",
}

// others holds the start of requests that are for net/http: incomplete, unusual, invalid, or ambiguous.
var others = []string{
	"",
	"G",
	"GET / HTTP/1.1\r\nHost: a\r\n",
	"GET / HTTP/1.1\r\nHost: a\r\n\r",
	"\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
	"GET / HTTP/1.0\r\nHost: a\r\n\r\n",
	"GET / HTTP/1.1\nHost: a\n\n",
	"GET / HTTP/1.1\r\nHost: a\n\r\n\r\n",
	"GET / HTTP/1.1\r\nHost: a\r\nX: b\rc\r\n\r\n",
	"GET  / HTTP/1.1\r\nHost: a\r\n\r\n",
	"GET /\tHTTP/1.1\r\nHost: a\r\n\r\n",
	"GET /a b HTTP/1.1\r\nHost: a\r\n\r\n",
	"GET /% HTTP/1.1\r\nHost: a\r\n\r\n",
	"GET /\xc3\xbc HTTP/1.1\r\nHost: a\r\n\r\n",
	"GET http://b/ HTTP/1.1\r\nHost: a\r\n\r\n",
	"OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n",
	"CONNECT a:80 HTTP/1.1\r\nHost: a\r\n\r\n",
	"get / HTTP/1.1\r\nHost: a\r\n\r\n",
	"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
	"GET / HTTP/1.1\r\n\r\n",
	"GET / HTTP/1.1\r\nHost:\r\n\r\n",
	"GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n",
	"GET / HTTP/1.1\r\nHost: a, b\r\n\r\n",
	"GET / HTTP/1.1\r\nHost: a/b\r\n\r\n",
	"GET / HTTP/1.1\r\nHost : a\r\n\r\n",
	"GET / HTTP/1.1\r\nHost: a\r\n: b\r\n\r\n",
	"GET / HTTP/1.1\r\nHost: a\r\nX\r\n\r\n",
	"GET / HTTP/1.1\r\nHost: a\r\n X: folded\r\n\r\n",
	"GET / HTTP/1.1\r\nHost: a\r\nX: b\r\n\tfolded\r\n\r\n",
	"GET / HTTP/1.1\r\nHost: a\r\nX: b \r\n\r\n",
	"GET / HTTP/1.1\r\nHost: a\r\nX: b\tc\r\n\r\n",
	"GET / HTTP/1.1\r\nHost: a\r\nX: \x00\r\n\r\n",
	"GET / HTTP/1.1\r\nHost: a\r\nX: \xff\r\n\r\n",
	"GET / HTTP/1.1\r\nHost: a\r\nX Y: b\r\n\r\n",
	"GET /a?b c HTTP/1.1\r\nHost: a\r\n\r\n",
	"GET /a?\xff HTTP/1.1\r\nHost: a\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\na",
	"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
	"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1, 1\r\n\r\na",
	"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: +1\r\n\r\na",
	"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\na",
	"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0x1\r\n\r\na",
	"POST / HTTP/1.1\r\nHost: a\r\nContent-Length:\r\n\r\na",
	"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 65537\r\n\r\na",
	"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 18446744073709551617\r\n\r\na",
	"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: a\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\n",
	"GET / HTTP/1.1\r\nHost: a\r\nUpgrade: h2c\r\n\r\n",
	"GET / HTTP/1.1\r\nHost: a\r\nPragma: no-cache\r\n\r\n",
	"GET / HTTP/1.1\r\nHost: a\r\nTrailer: X\r\n\r\n",
	"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
	"GET / HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, X\r\n\r\n",
	"GET / HTTP/1.1\r\nHost: a\r\nX: " + strings.Repeat("x", MaxHead) + "\r\n\r\n",
}

// TestSubset: common requests are served here, and others are not.
func TestSubset(t *testing.T) {
	t.Parallel()
	for _, text := range common {
		if h, _ := parse([]byte(text)); h.size == 0 {
			t.Errorf("left to net/http: %q", text)
		}
		same(t, []byte(text))
	}
	for _, text := range others {
		if h, _ := parse([]byte(text)); h.size != 0 {
			t.Errorf("not left to net/http: %q", text)
		}
	}
}

// TestMoreBytes: more bytes are read only for the start of a head that may still be short enough.
func TestMoreBytes(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		common[0][:20]:                 true,
		others[3]:                      true,
		others[5]:                      false,
		strings.Repeat("x", MaxHead-1): true,
		strings.Repeat("x", MaxHead):   false,
	} {
		if _, more := parse([]byte(text)); more != want {
			t.Errorf("%.50q: %t", text, more)
		}
	}
}

// FuzzSubset: net/http reads a request of the subset in the same way.
func FuzzSubset(f *testing.F) {
	for _, text := range slices.Concat(common, others) {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) { same(t, text) })
}

func same(t *testing.T, text []byte) {
	h, _ := parse(text)
	if h.size == 0 {
		return
	}
	in := bufio.NewReader(bytes.NewReader(text))
	want, err := http.ReadRequest(in)
	check.Must(t, err)
	if len(want.Header["Host"]) > 0 {
		t.Errorf("%q: the header has Host", text)
	}
	e := &exchange{}
	got := h.request(&conn{}, e)
	if got.Method != want.Method || got.RequestURI != want.RequestURI || got.Host != want.Host ||
		got.Proto != want.Proto || got.ProtoMajor != want.ProtoMajor || got.ProtoMinor != want.ProtoMinor ||
		got.ContentLength != want.ContentLength || got.Close != want.Close ||
		(got.Body == http.NoBody) != (want.Body == http.NoBody) ||
		!reflect.DeepEqual(got.URL, want.URL) || !maps.EqualFunc(got.Header, want.Header, slices.Equal) {
		t.Errorf("%q:\n%+v, want\n%+v", text, got, want)
	}
	body, err := io.ReadAll(want.Body)
	if rest := text[h.size:]; h.length > len(rest) {
		if err != io.ErrUnexpectedEOF { //nolint:errorlint // never wrapped
			t.Errorf("%q: %v for a body of %d bytes, of %d", text, err, len(rest), h.length)
		}
	} else if after, _ := io.ReadAll(in); string(body) != string(rest[:h.length]) || err != nil ||
		string(after) != string(rest[h.length:]) {
		t.Errorf("%q: the body is %q, and the rest %q", text, body, after)
	}
}
