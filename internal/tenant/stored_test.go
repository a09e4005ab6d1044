package tenant_test

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/internal/testkit/check"
)

func TestStoredKeys(t *testing.T) {
	t.Parallel()
	plain, ofPlain := storedKey("acme", nil)
	asserts, ofAsserts := storedKey("acme", func(k *tenant.Key) { k.Asserts = tenant.User })
	over, ofOver := storedKey("acme", func(k *tenant.Key) { k.Expires = time.Unix(5, 0) })
	replaced, ofReplaced := storedKey("acme", func(k *tenant.Key) { k.Until = time.Unix(5, 0) })
	revoked, ofRevoked := storedKey("acme", func(k *tenant.Key) { k.Revoked = time.Unix(5, 0) })
	off, ofOff := storedKey("off", nil)
	orphan, ofOrphan := storedKey("nobody", nil)
	earlier, ofEarlier := storedKey("acme", func(k *tenant.Key) { k.UID = "of one before" })
	s := newStore(earlier, plain, asserts, over, replaced, revoked, off, orphan)
	s.keys[earlier.ID] = earlier
	s.tenants["off"] = &tenant.Record{UID: "uid of off", ID: "off", Disabled: true}
	delete(s.tenants, "nobody")
	s.tenants["acme"] = &tenant.Record{UID: "uid of acme", ID: "acme"}
	id, _, _ := tenant.ParseCredential(ofPlain)
	watching(t, s, func(t *testing.T, stored *tenant.Stored) {
		for what, test := range map[string]struct{ credential, user, reason string }{
			"good":                 {ofPlain, "", ""},
			"asserts":              {ofAsserts, "ann", ""},
			"expired":              {ofOver, "", "CREDENTIAL_EXPIRED"},
			"replaced":             {ofReplaced, "", "CREDENTIAL_EXPIRED"},
			"revoked":              {ofRevoked, "", "CREDENTIAL_INVALID"},
			"of a disabled tenant": {ofOff, "", "TENANT_DISABLED"},
			"of no tenant":         {ofOrphan, "", "CREDENTIAL_INVALID"},
			"of an earlier tenant": {ofEarlier, "", "CREDENTIAL_INVALID"},
			"a wrong secret":       {tenant.Credential(id, strings.Repeat("a", 32)), "", "CREDENTIAL_INVALID"},
			"unknown": {tenant.Credential(strings.Repeat("a", 16), strings.Repeat("a", 32)), "",
				"CREDENTIAL_INVALID"},
			"an id that is no id": {tenant.Credential("{}:*\x00%1aaaaaaaa", strings.Repeat("a", 32)), "",
				"CREDENTIAL_INVALID"},
			"something else":        {"eyJhbGciOiJub25lIn0.e30.", "", "CREDENTIAL_INVALID"},
			"something else, empty": {"", "", "CREDENTIAL_INVALID"},
		} {
			for i := range 3 {
				who, atOnce, reason := show(t, stored, test.credential)
				if reason != test.reason || who.User != test.user || i > 0 && !atOnce {
					t.Errorf("%s: %+v, %q, at once %v", what, who, reason, atOnce)
				}
				if reason == "" && (who.Tenant != "acme" || who.Settings == nil || who.Settings.ID != "acme" ||
					who.Scopes != tenant.Invoke) {
					t.Errorf("%s: %+v", what, who)
				}
			}
		}
		if n := s.questions(); n != 9+3 { // well-formed keys, and the tenants
			t.Errorf("%d questions", n)
		}
	})
}

// TestChangesAreFollowed: changes take effect within a second, also if the message is lost.
func TestChangesAreFollowed(t *testing.T) {
	t.Parallel()
	for _, tell := range []bool{true, false} {
		key, good := storedKey("acme", nil)
		s := newStore(key)
		watching(t, s, func(t *testing.T, stored *tenant.Stored) {
			expect := func(what, reason, name string) {
				t.Helper()
				if !tell {
					elapse(time.Second + time.Millisecond)
				}
				who, _, got := show(t, stored, good)
				if got != reason || reason == "" && who.Settings.Name != name {
					t.Errorf("told %v: %s: %+v, %q", tell, what, who.Settings, got)
				}
			}
			expect("first", "", "first")
			s.change(tell, tenant.Change{Tenant: "acme"}, func() {
				s.tenants["acme"] = &tenant.Record{UID: key.UID, ID: "acme", Name: "second"}
			})
			expect("another name", "", "second")
			if settings, known := stored.Directory().Lookup("acme"); !known || settings.Name != "second" {
				t.Errorf("the directory has %+v, %v", settings, known)
			}
			s.change(tell, tenant.Change{Key: key.ID}, func() {
				revoked := key
				revoked.Revoked = time.Now()
				s.keys[key.ID] = revoked
			})
			expect("revoked", "CREDENTIAL_INVALID", "")
			s.change(tell, tenant.Change{Key: key.ID}, func() { s.keys[key.ID] = key })
			expect("back", "", "second")
			s.change(tell, tenant.Change{Tenant: "acme"}, func() { delete(s.tenants, "acme") })
			expect("no tenant", "CREDENTIAL_INVALID", "")
			s.change(tell, tenant.Change{Tenant: "acme"}, func() {
				s.tenants["acme"] = &tenant.Record{UID: "another", ID: "acme"}
			})
			expect("another tenant", "CREDENTIAL_INVALID", "")
		})
	}
}

// TestAnAnswerThatIsOnItsWay: a response that is in flight when a key is revoked is not cached, whichever of two
// responses arrives first.
func TestAnAnswerThatIsOnItsWay(t *testing.T) {
	t.Parallel()
	for _, early := range []bool{true, false} { // the response from before the change arrives first
		key, good := storedKey("acme", nil)
		s := newStore(key)
		watching(t, s, func(t *testing.T, stored *tenant.Stored) {
			before, after := make(chan struct{}), make(chan struct{})
			s.set(func() { s.hold = before })
			var asking sync.WaitGroup
			asking.Go(func() { _, _, _ = show(t, stored, good) }) // before the revocation: either result is right
			synctest.Wait()
			s.change(true, tenant.Change{Key: key.ID}, func() { delete(s.keys, key.ID); s.hold = after })
			asking.Go(func() {
				if _, _, reason := show(t, stored, good); reason != "CREDENTIAL_INVALID" {
					t.Errorf("early %v: asked after it was revoked: %q", early, reason)
				}
			})
			synctest.Wait()
			s.set(func() { s.hold = nil })
			answers := []chan struct{}{before, after}
			if !early {
				slices.Reverse(answers)
			}
			for _, answer := range answers {
				close(answer)
				synctest.Wait()
			}
			asking.Wait()
			if _, _, reason := show(t, stored, good); reason != "CREDENTIAL_INVALID" {
				t.Errorf("early %v: later: %q", early, reason)
			}
		})
	}
}

// TestTheStoreIsUnavailable: cached callers are accepted for ten minutes, others are rejected.
func TestTheStoreIsUnavailable(t *testing.T) {
	t.Parallel()
	key, good := storedKey("acme", nil)
	other, ofOther := storedKey("acme", nil)
	for how, unavailable := range map[string]func(s *store){
		"unavailable": func(s *store) { s.unavailable = true },
		"came lost":   func(s *store) { s.version = 0; clear(s.keys); clear(s.tenants) },
	} {
		s := newStore(key, other)
		watching(t, s, func(t *testing.T, stored *tenant.Stored) {
			before := maps.Clone(s.keys)
			if _, _, reason := show(t, stored, good); reason != "" {
				t.Fatal(reason)
			}
			s.set(func() { unavailable(s) })
			elapse(6 * time.Second)
			for _, wait := range []time.Duration{0, 9 * time.Minute} {
				elapse(wait)
				if _, atOnce, reason := show(t, stored, good); reason != "" || !atOnce {
					t.Errorf("%s: known, after %v: %q, at once %v", how, wait, reason, atOnce)
				}
				if _, _, reason := show(t, stored, ofOther); reason != "IDENTITY_UNAVAILABLE" {
					t.Errorf("%s: not known, after %v: %q", how, wait, reason)
				}
			}
			elapse(time.Minute)
			want := "IDENTITY_UNAVAILABLE"
			if how != "unavailable" {
				want = "CREDENTIAL_INVALID" // it counts as deleted
			}
			if _, _, reason := show(t, stored, good); reason != want {
				t.Errorf("%s: after ten minutes: %q", how, reason)
			}
			s.set(func() {
				s.unavailable, s.keys, s.version = false, before, 9
				s.tenants["acme"] = &tenant.Record{UID: key.UID, ID: "acme"}
			})
			elapse(time.Second)
			for _, credential := range []string{good, ofOther} {
				if _, _, reason := show(t, stored, credential); reason != "" {
					t.Errorf("%s: back: %q", how, reason)
				}
			}
		})
	}
}

// TestAFloodOfUnknownKeys queries the store within its bound, and evicts no known caller.
func TestAFloodOfUnknownKeys(t *testing.T) {
	t.Parallel()
	key, good := storedKey("acme", nil)
	s := newStore(key)
	check.Bubble(t, func(t *testing.T) {
		stored := tenant.NewStored(s, tenant.Options{TTL: time.Hour, Entries: 1000, Unknown: 100})
		stored.Directory() // without a follower: the clock stands still
		if _, _, reason := show(t, stored, good); reason != "" {
			t.Fatal(reason)
		}
		before := s.questions()
		reasons := map[string]int{}
		for range 20_000 {
			_, credential := issue("acme", nil, nil)
			for range 2 {
				_, _, reason := show(t, stored, credential)
				reasons[reason]++
			}
		}
		if n := s.questions() - before; n > 100 || reasons["CREDENTIAL_INVALID"] != 2*n ||
			reasons["IDENTITY_OVERLOADED"] != 40_000-2*n {
			t.Errorf("%d questions, %v", n, reasons)
		}
		if _, atOnce, reason := show(t, stored, good); reason != "" || !atOnce {
			t.Errorf("a good key: %q, at once %v", reason, atOnce)
		}
		<-time.After(time.Second)
		for range 20_000 {
			_, credential := issue("acme", nil, nil)
			_, _, _ = show(t, stored, credential)
		}
		if n := s.questions() - before; n > 200 {
			t.Errorf("%d questions within two seconds", n)
		}
		if n := stored.Stats().Entries; n > 2*1000+2*1000 {
			t.Errorf("%d entries", n)
		}
	})
}

// TestOneQuestionForAll concurrent calls with an uncached key.
func TestOneQuestionForAll(t *testing.T) {
	t.Parallel()
	key, good := storedKey("acme", nil)
	s := newStore(key)
	watching(t, s, func(t *testing.T, stored *tenant.Stored) {
		hold := make(chan struct{})
		s.set(func() { s.hold = hold })
		var calls sync.WaitGroup
		for range 100 {
			calls.Go(func() {
				if _, _, reason := show(t, stored, good); reason != "" {
					t.Error(reason)
				}
			})
		}
		synctest.Wait()
		close(hold)
		calls.Wait()
		if n := s.questions(); n > 3 { // the tenant may be read after the first call has left
			t.Errorf("%d questions", n)
		}
	})
}

func TestPepperOfStoredKeys(t *testing.T) {
	t.Parallel()
	pepper := peppers["with one"]
	key, good := issue("acme", pepper, func(k *tenant.Key) { k.UID = "u" })
	watching(t, newStore(key), func(t *testing.T, stored *tenant.Stored) {
		for _, step := range []struct {
			pepper []byte
			reason string
		}{{nil, "CREDENTIAL_INVALID"}, {pepper, ""}, {[]byte("another pepper, as long"), "CREDENTIAL_INVALID"},
			{pepper, ""}} {
			stored.SetPepper(step.pepper)
			for range 2 {
				if _, _, reason := show(t, stored, good); reason != step.reason {
					t.Errorf("%q: %q", step.pepper, reason)
				}
			}
		}
	})
}

// TestIdentities: the file has precedence over the store, and each kind of credential has its source.
func TestIdentities(t *testing.T) {
	t.Parallel()
	both, ofBoth := storedKey("acme", nil)
	inFile := both
	inFile.Tenant = "filed"
	stored, ofStored := storedKey("filed", func(k *tenant.Key) { k.UID = "" })
	s := newStore(both, stored)
	delete(s.tenants, "filed")
	watching(t, s, func(t *testing.T, of *tenant.Stored) {
		file := tenant.NewKeys(nil)
		settings := map[string]*tenant.Settings{"filed": {ID: "filed", Name: "of the file"}}
		file.Replace([]tenant.Key{inFile}, settings, nil)
		of.Directory().Replace(settings)
		all := tenant.NewAuthenticators(tenant.Sources{File: file, Stored: of})
		for _, credential := range []string{ofBoth, ofStored} {
			if who, _, reason := show(t, all, credential); reason != "" || who.Tenant != "filed" ||
				who.Settings != settings["filed"] {
				t.Errorf("%+v, %q", who, reason)
			}
		}
		for _, credential := range []string{"", "eyJhbGciOiJub25lIn0.e30.", "cg_x"} {
			if _, _, reason := show(t, all, credential); reason != "CREDENTIAL_INVALID" {
				t.Errorf("%q: %q", credential, reason)
			}
		}
		counts := map[string]int64{}
		all.Each(func(k tenant.Kind, r tenant.Result, n int64) {
			if n > 0 {
				counts[k.String()+" "+r.String()] = n
			}
		})
		if want := map[string]int64{"key memory": 1, "key asked": 1, "key refused": 3}; !maps.Equal(counts, want) {
			t.Errorf("%v, want %v", counts, want)
		}
		with := tenant.NewAuthenticators(tenant.Sources{File: file, Tokens: tenant.Single{}})
		if who, _, reason := show(t, with, "eyJhbGciOiJub25lIn0.e30."); reason != "" || who.Tenant != tenant.Default {
			t.Errorf("%+v, %q", who, reason)
		}
		if _, _, reason := show(t, with, ofStored); reason != "CREDENTIAL_INVALID" {
			t.Error(reason)
		}
	})
}

func knownOf(tb testing.TB) (*tenant.Authenticators, string) {
	tb.Helper()
	key, good := storedKey("acme", func(k *tenant.Key) {
		k.Asserts = tenant.User
		k.Expires = time.Now().Add(time.Hour)
	})
	stored := tenant.NewStored(newStore(key), tenant.Options{})
	all := tenant.NewAuthenticators(tenant.Sources{File: tenant.NewKeys(nil), Stored: stored})
	if _, refusal := all.Authenticate(tb.Context(), tenant.Credentials{Credential: good}); refusal != nil {
		tb.Fatal(refusal)
	}
	return all, good
}

// TestAKnownStoredKeyCostsNothing: no allocation.
func TestAKnownStoredKeyCostsNothing(t *testing.T) {
	all, good := knownOf(t)
	if n := testing.AllocsPerRun(100, func() {
		if _, known, refusal := all.Lookup(tenant.Credentials{Credential: good, User: "ann"}); !known ||
			refusal != nil {
			t.Error(known, refusal)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkStored(b *testing.B) {
	all, good := knownOf(b)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			_, _, _ = all.Lookup(tenant.Credentials{Credential: good, User: "ann"})
		}
	})
}
