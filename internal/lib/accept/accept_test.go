package accept_test

import (
	"net/http"
	"testing"

	"github.com/capgate/capgate/internal/lib/accept"
)

// TestWeigh: the most specific range decides, and 0 is "not acceptable".
func TestWeigh(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		header []string
		name   string
		want   float64
	}{
		{nil, "text/html", 0},
		{[]string{"text/html"}, "text/html", 1},
		{[]string{"Text/HTML ; charset=utf-8; Q=0.3"}, "text/html", 0.3},
		{[]string{"text/html;q=0"}, "text/html", 0},
		{[]string{"text/html;q=0.000, */*"}, "text/html", 0},
		{[]string{"*/*", "text/html; q=0"}, "text/html", 0},
		{[]string{"text/*;q=0, */*"}, "text/html", 0},
		{[]string{"text/*;q=0.2, */*;q=0.1"}, "text/html", 0.2},
		{[]string{"text/*;q=0.2, */*;q=0.1"}, "image/png", 0.1},
		{[]string{"text/html-like, application/text/html"}, "text/html", 0},
		{[]string{"text/html;q=NaN"}, "text/html", 0},
		{[]string{"text/html;q=2, text/html;q=-1, text/html;q=x"}, "text/html", 0},
		{[]string{"text/html, *; q=.2, */*; q=.2"}, "image/gif", 0.2},
		{[]string{"gzip, deflate, br"}, "gzip", 1},
		{[]string{"X-GZIP;q=0.5"}, "gzip", 0.5},
		{[]string{"gzip;q=0, *"}, "gzip", 0},
		{[]string{"*;q=0, gzip"}, "gzip", 1},
		{[]string{"*"}, "zstd", 1},
	} {
		if got := accept.Weigh(accept.Ranges(http.Header{"Accept": c.header}, "Accept"), c.name); got != c.want {
			t.Errorf("%q, %s: %v, want %v", c.header, c.name, got, c.want)
		}
	}
}

// TestNamed: a wildcard names nothing.
func TestNamed(t *testing.T) {
	t.Parallel()
	for header, want := range map[string]bool{"": false, "*/*": false, "text/*": false, "text/html": true,
		"application/json, text/html;q=0.1": true, "text/html;q=0, */*": false, "text/htmlx": false} {
		if got := accept.Named(http.Header{"Accept": {header}}, "text/html"); got != want {
			t.Errorf("%q: %v", header, got)
		}
	}
}
