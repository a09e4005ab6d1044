package router_test

import (
	"testing"

	"github.com/capgate/capgate/router"
)

// TestAudience: an assertion is for the server's URL, or the capability, unless the fleet names another audience.
func TestAudience(t *testing.T) {
	t.Parallel()
	other := &router.Assertion{Audience: "https://files.example.com"}
	for _, test := range []struct {
		of         *router.Assertion
		addr, want string
	}{
		{nil, "http://10.0.0.7:3001/mcp", ""},
		{&router.Assertion{}, "http://10.0.0.7:3001/mcp", "http://10.0.0.7:3001/mcp"},
		{&router.Assertion{}, "10.0.0.7:50051", "files"}, {other, "10.0.0.7:50051", other.Audience},
		{other, "http://10.0.0.7:3001/mcp", other.Audience},
	} {
		if got := test.of.Of("files", test.addr); got != test.want {
			t.Errorf("%+v, %s: %q, want %q", test.of, test.addr, got, test.want)
		}
	}
	for _, test := range []struct {
		a, b *router.Assertion
		want bool
	}{{nil, nil, true}, {nil, other, false}, {other, nil, false}, {other, &router.Assertion{}, false},
		{&router.Assertion{Audience: other.Audience}, other, true}} {
		if test.a.Equal(test.b) != test.want {
			t.Errorf("%+v, %+v: not %t", test.a, test.b, test.want)
		}
	}
}
