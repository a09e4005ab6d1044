package approvals_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/capgate/capgate/internal/lib/sharedkey"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/policy/approvals"
)

func key(b byte) []byte { return bytes.Repeat([]byte{b}, sharedkey.Bytes) }

// TestArgumentsAreEncrypted: stored arguments can be decrypted only with the configured keys, and only for their own
// approval.
func TestArgumentsAreEncrypted(t *testing.T) {
	t.Parallel()
	store := &memory{}
	first := newKeeper(t, store, approvals.Options{Keys: [][]byte{key(1)}})
	a := ask(t, first, request(`{"to":"bob","id":12345678901234567890}`))
	b := ask(t, first, request(`{"to":"eve"}`))
	alike := request(`{"to":"bob","id":12345678901234567890}`)
	alike.User = "eve"
	c := ask(t, first, alike)
	const want = "{\n  \"id\": 12345678901234567890,\n  \"to\": \"bob\"\n}"
	if a.Preview != want {
		t.Errorf("the first shows %s", a.Preview)
	}
	sealed := store.records[a.ID].Sealed
	if len(sealed) == 0 || store.records[a.ID].Preview != "" || bytes.Contains(sealed, []byte("bob")) {
		t.Errorf("stored: %+v; sealed %+v", store.records[a.ID], sealed)
	}
	show := func(keys ...[]byte) approvals.Approval {
		got, err := newKeeper(t, store, approvals.Options{Keys: keys}).Get(t.Context(), a.Tenant, a.ID)
		check.Must(t, err)
		return got
	}
	if got := show(key(2), key(1)); got.Preview != want || got.Unreadable {
		t.Errorf("a later key shows %+v", got)
	}
	for name, spoil := range map[string]func(*approvals.Record){
		"nothing":             func(*approvals.Record) {},
		"a bit":               func(r *approvals.Record) { r.Sealed[len(r.Sealed)-1] ^= 1 },
		"the nonce":           func(r *approvals.Record) { r.Sealed[3] ^= 1 },
		"the format":          func(r *approvals.Record) { r.Sealed[0]++ },
		"the end":             func(r *approvals.Record) { r.Sealed = r.Sealed[:20] },
		"nearly all":          func(r *approvals.Record) { r.Sealed = r.Sealed[:1] },
		"the hash":            func(r *approvals.Record) { r.ArgsHash[0]++ },
		"the tenant":          func(r *approvals.Record) { r.Tenant = "other" },
		"another's for it":    func(r *approvals.Record) { r.Sealed = store.records[b.ID].Sealed },
		"the same of another": func(r *approvals.Record) { r.Sealed = store.records[c.ID].Sealed },
	} {
		whole := store.records[a.ID]
		store.put(a.ID, func(r *approvals.Record) {
			r.Sealed = bytes.Clone(r.Sealed)
			spoil(r)
		})
		keys := [][]byte{key(1)}
		if name == "nothing" {
			keys = [][]byte{key(2), key(3)}
		}
		if got := show(keys...); got.Preview != "" || !got.Unreadable || got.State != approvals.Pending {
			t.Errorf("%s: %+v", name, got)
		}
		if got := show(); got.Preview != "" || !got.Unreadable {
			t.Errorf("%s, without a key: %+v", name, got)
		}
		store.put(a.ID, func(r *approvals.Record) { *r = whole })
	}
	if again := ask(t, first, request(`{"to":"bob","id":12345678901234567890}`)); bytes.Equal(
		store.records[again.ID].Sealed, sealed) {
		t.Error("the same arguments look the same")
	}
}

func TestLongArgumentsAreNotKept(t *testing.T) {
	t.Parallel()
	store := &memory{}
	k := newKeeper(t, store, approvals.Options{Keys: [][]byte{key(1)}, MaxArgs: 1000})
	a := ask(t, k, request(`["a","`+strings.Repeat("b ", 20_000)+`"]`))
	got, err := k.Get(t.Context(), a.Tenant, a.ID)
	if err != nil || !strings.HasPrefix(got.Preview, "[\n  \"a\",\n  \"b b") || got.Preview != a.Preview ||
		len(store.records[a.ID].Sealed) > 9<<10 {
		t.Errorf("%d bytes: %+v, %v", len(store.records[a.ID].Sealed), got, err)
	}
}

func TestBadKeys(t *testing.T) {
	t.Parallel()
	for _, bad := range [][]byte{nil, {}, key(1)[1:], append(key(1), 1)} {
		if _, err := approvals.New(&memory{}, approvals.Options{Keys: [][]byte{key(1), bad}}); err == nil ||
			!strings.Contains(err.Error(), "key 2") {
			t.Errorf("%d bytes: %v", len(bad), err)
		}
	}
}
