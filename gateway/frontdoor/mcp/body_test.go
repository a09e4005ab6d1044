package mcp_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/capgate/capgate/gateway/frontdoor/mcp"
)

// TestBodyLengths: a message is limited whether or not its request announces the length, and is read as far as that.
func TestBodyLengths(t *testing.T) {
	t.Parallel()
	const most, call, fits = 100 << 10, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"caps__echo"}}`,
		http.StatusOK
	filled := func(n int) string { return call + strings.Repeat(" ", n-len(call)) }
	for name, c := range map[string]struct {
		body   string
		length int // negative means unknown
		status int
		reason string
	}{
		"short":                     {call, len(call), fits, ""},
		"short, unknown":            {call, -1, fits, ""},
		"long":                      {filled(most), most, fits, ""},
		"long, unknown":             {filled(most), -1, fits, ""},
		"too long":                  {filled(most + 1), most + 1, http.StatusRequestEntityTooLarge, "BODY_TOO_LARGE"},
		"too long, unknown":         {filled(most + 1), -1, http.StatusRequestEntityTooLarge, "BODY_TOO_LARGE"},
		"more than announced":       {call + "garbage", len(call), fits, ""},
		"no complete message":       {call[:40], 40, http.StatusBadRequest, "INVALID_BODY"},
		"no message, not announced": {"", -1, http.StatusBadRequest, "INVALID_BODY"},
	} {
		a := newAsking(t)
		a.Handler = mcp.New(mcp.Config{Conn: a, Unary: a.call, Catalog: a, Authenticate: allowed, Invokes: allowed,
			Lists: allowed, MaxBody: most})
		w, r := httptest.NewRecorder(), a.request(http.MethodPost, c.body)
		r.ContentLength = int64(c.length)
		a.ServeHTTP(w, r)
		if w.Code != c.status || !strings.Contains(w.Body.String(), c.reason) {
			t.Errorf("%s: %d %.200s", name, w.Code, w.Body)
		}
	}
}
