package tenant_test

import (
	"testing"

	"github.com/capgate/capgate/internal/tenant"
)

// shownHeaders are names and values in turn.
type shownHeaders []string

// Header implements the parameter of ShownBy.
func (h shownHeaders) Header(name string) (string, bool) {
	for i := 0; i < len(h); i += 2 {
		if h[i] == name {
			return h[i+1], true
		}
	}
	return "", false
}

// Contradicts implements the parameter of ShownBy.
func (h shownHeaders) Contradicts(name string) bool {
	first, _ := h.Header(name)
	for i := 0; i < len(h); i += 2 {
		if h[i] == name && h[i+1] != first {
			return true
		}
	}
	return false
}

// TestShownBy: a credential of the gateway counts in either header, and keys of other services in neither.
func TestShownBy(t *testing.T) {
	t.Parallel()
	const one, two, token = "cg_one", "cg_two", "eyJhbGciOiJFUzI1NiJ9.e30.c2ln"
	for what, c := range map[string]struct {
		headers shownHeaders
		text    string
		shown   tenant.Shown
	}{
		"nothing":                {nil, "", tenant.ShowsNothing},
		"a key":                  {shownHeaders{"x-api-key", one}, one, tenant.ShowsOne},
		"a token":                {shownHeaders{"x-api-key", token}, token, tenant.ShowsOne},
		"a start token":          {shownHeaders{"x-api-key", "cgstart_x"}, "cgstart_x", tenant.ShowsOne},
		"bearer":                 {shownHeaders{"authorization", "bearer  " + one}, one, tenant.ShowsOne},
		"bearer of another form": {shownHeaders{"authorization", "Bearer x"}, "x", tenant.ShowsOne},
		"both": {shownHeaders{"authorization", "Bearer " + one, "x-api-key", one}, one,
			tenant.ShowsOne},
		"a header twice": {shownHeaders{"x-api-key", one, "x-api-key", one}, one, tenant.ShowsOne},
		"two": {shownHeaders{"authorization", "Bearer " + one, "x-api-key", two}, "",
			tenant.ShowsTwo},
		"two in one header": {shownHeaders{"x-api-key", one, "x-api-key", two}, "", tenant.ShowsTwo},
		"two bearers": {shownHeaders{"authorization", "Bearer " + one, "authorization", "Bearer " +
			two}, "", tenant.ShowsTwo},
		"another scheme and a key": {shownHeaders{"authorization", "Basic eA==", "x-api-key", one}, "",
			tenant.ShowsTwo},
		"another scheme":       {shownHeaders{"authorization", "Basic eA=="}, "", tenant.ShowsEmpty},
		"an empty key":         {shownHeaders{"x-api-key", ""}, "", tenant.ShowsEmpty},
		"another's key":        {shownHeaders{"x-api-key", "sk-x"}, "", tenant.ShowsForeign},
		"another's, with dots": {shownHeaders{"x-api-key", "SG.x.y"}, "", tenant.ShowsForeign},
		"another's beside a bearer": {shownHeaders{"authorization", "Bearer " + one, "x-api-key", "sk-x"}, one,
			tenant.ShowsOne},
		"an empty key beside a token": {shownHeaders{"authorization", "Bearer " + token, "x-api-key", ""}, token,
			tenant.ShowsOne},
		"another's before a key": {shownHeaders{"x-api-key", "sk-x", "x-api-key", one}, "", tenant.ShowsTwo},
	} {
		if text, shown := tenant.ShownBy(c.headers); text != c.text || shown != c.shown {
			t.Errorf("%s: %q, %d", what, text, shown)
		}
	}
}
