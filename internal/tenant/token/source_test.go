package token_test

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/internal/tenant/token"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/clocktest"
	"github.com/capgate/capgate/internal/testkit/issuertest"
)

// TestKeysFollowTheIssuer: a new key is fetched when a token uses it; a key that stays is valid, and tokens of a
// withdrawn key are rejected although they are cached.
func TestKeysFollowTheIssuer(t *testing.T) {
	t.Parallel()
	i := issuertest.Start(t)
	v := start(t, nil, configOf(i, nil))
	first := i.Token(t, nil)
	want(t, v, "the first key's", first, "")
	i.Rotate(t, true)
	second := i.Token(t, nil)
	want(t, v, "the second key's", second, "")
	want(t, v, "the first key's, which stays", first, "")
	i.Rotate(t, false)
	third := i.Token(t, nil)
	want(t, v, "the third key's", third, "")
	want(t, v, "the first key's, which is gone", first, "CREDENTIAL_INVALID")
	want(t, v, "the second key's, which is gone", second, "CREDENTIAL_INVALID")
	want(t, v, "the third key's again", third, "")
}

// TestRefresh: a withdrawn key becomes invalid without tokens with a new key.
func TestRefresh(t *testing.T) {
	t.Parallel()
	i := issuertest.Start(t)
	v := start(t, nil, configOf(i, func(c *token.Issuer) { c.Source.Refresh = 10 * time.Millisecond }))
	raw := i.Token(t, nil)
	want(t, v, "before", raw, "")
	i.Rotate(t, false)
	check.Holds(t, "the verifier", func() bool { _, reason := ask(t, v, raw); return reason == "CREDENTIAL_INVALID" })
	want(t, v, "the new key's", i.Token(t, nil), "")
}

// TestUnknownKeysCostLittle: a flood of them causes a few fetches, and known keys stay valid.
func TestUnknownKeysCostLittle(t *testing.T) {
	t.Parallel()
	i, clock := issuertest.Start(t), clocktest.New(time.Now())
	v := start(t, clock, configOf(i, nil))
	good := i.Token(t, nil)
	want(t, v, "known", good, "")
	forged := make([]string, 300)
	for n := range forged {
		forged[n] = i.Sign(t, "ES256", map[string]any{"alg": "ES256", "kid": "k" + strings.Repeat("x", n)},
			i.Claims(nil))
	}
	flood := func() {
		var all sync.WaitGroup
		for part := range 10 {
			all.Go(func() {
				for n := part; n < len(forged); n += 10 {
					want(t, v, "unknown", forged[n], "CREDENTIAL_INVALID")
				}
			})
		}
		all.Wait()
	}
	flood()
	if n := i.Requests(t); n < 2 || n > 4 {
		t.Errorf("300 unknown keys cost %d fetches, want 3 at most besides the first", n-1)
	}
	want(t, v, "known still", good, "")
	before := i.Requests(t)
	clock.Add(10 * time.Second)
	flood()
	if n := i.Requests(t) - before; n > 2 {
		t.Errorf("10 s later 300 unknown keys cost %d fetches", n)
	}
	clock.Add(10 * time.Second)
	i.Rotate(t, true)
	want(t, v, "a real one afterwards", i.Token(t, map[string]any{"iat": clock.Now().Unix()}), "")
	if s := v.Stats()[0]; s.Limited == 0 || s.Fetched < 3 || s.Failed != 0 || !s.Up || s.Issuer != "corp" {
		t.Errorf("%+v", s)
	}
}

// TestOutage: known keys stay valid for a bounded time while the issuer is unavailable, and everything works when it
// is back.
func TestOutage(t *testing.T) {
	t.Parallel()
	i, clock := issuertest.Start(t), clocktest.New(time.Now())
	v := start(t, clock, configOf(i,
		func(c *token.Issuer) { c.Source.Refresh, c.Source.MaxStale = 10*time.Millisecond, 6*time.Hour }))
	long := map[string]any{"exp": time.Now().Add(100 * time.Hour).Unix()}
	seen, unseen, later := i.Token(t, long), i.Token(t, long), i.Token(t, long)
	want(t, v, "before", seen, "")
	i.Stop(t)
	check.Holds(t, "the verifier", func() bool { return !v.Stats()[0].Up })
	want(t, v, "seen", seen, "")
	want(t, v, "not seen before", unseen, "")
	clock.Add(6*time.Hour + time.Minute)
	want(t, v, "seen, late", seen, "")
	want(t, v, "the keys are too old", later, "IDENTITY_UNAVAILABLE")
	i.Resume(t)
	check.Holds(t, "the verifier", func() bool { _, reason := ask(t, v, later); return reason == "" })
	if s := v.Stats()[0]; !s.Up || s.Failed == 0 {
		t.Errorf("%+v", s)
	}
}

// TestNewKeysInAnOutage: tokens of keys that cannot be fetched are refused for now, and cost a bounded number of
// fetches. A forged token of a known key is invalid all the same.
func TestNewKeysInAnOutage(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"500", "garbage", "stopped", "silence"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			i := issuertest.Start(t)
			v := start(t, clocktest.New(time.Now()), configOf(i, nil))
			known := i.Token(t, nil)
			want(t, v, "before", known, "")
			i.Rotate(t, true)
			fresh := make([]string, 50)
			for n := range fresh {
				fresh[n] = i.Token(t, map[string]any{"jti": n})
			}
			began := time.Now()
			if i.Behave(t, how); how == "stopped" {
				i.Stop(t)
			}
			unavailable := func(raw string) {
				ctx, cancel := context.WithTimeout(t.Context(), check.Patience)
				if how == "silence" { // the call's time is over before that of the fetch
					ctx, cancel = context.WithTimeout(t.Context(), 10*time.Millisecond)
				}
				defer cancel()
				if _, refusal := v.Authenticate(ctx, tenant.Credentials{Credential: raw}); refusal == nil ||
					refusal.Reason != "IDENTITY_UNAVAILABLE" || refusal.RetryAfter == 0 {
					t.Errorf("a new key: %+v", refusal)
				}
			}
			for _, raw := range fresh {
				unavailable(raw)
			}
			// After a failure the verifier tries again by itself, a second later at the earliest.
			itself := int64(time.Since(began) / (900 * time.Millisecond))
			if n := v.Stats()[0].Failed; n > 4+itself {
				t.Errorf("%d tokens cost %d fetches", len(fresh), n)
			}
			want(t, v, "known still", known, "")
			want(t, v, "forged", known[:len(known)-8]+"AAAAAAAA", "CREDENTIAL_INVALID")
		})
	}
}

// TestNeverReached: the start does not wait for the issuer, and no token is accepted.
func TestNeverReached(t *testing.T) {
	t.Parallel()
	i := issuertest.Start(t)
	raw := i.Token(t, nil)
	i.Stop(t)
	v := start(t, nil, configOf(i, nil))
	want(t, v, "away", raw, "IDENTITY_UNAVAILABLE")
	i.Resume(t)
	check.Holds(t, "the verifier", func() bool { _, reason := ask(t, v, raw); return reason == "" })
}

// TestWrongAnswers: an issuer with invalid responses counts as unavailable, and its certificate must be trusted.
func TestWrongAnswers(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"500", "redirect", "garbage", "huge", "silence", "other issuer", "cleartext keys",
		"no keys"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			i := issuertest.Start(t)
			i.Behave(t, how)
			v := start(t, nil, configOf(i, func(c *token.Issuer) {
				if how == "silence" {
					c.Source.Timeout = 0 // the default, as the test waits for it
				}
			}))
			want(t, v, how, i.Token(t, nil), "IDENTITY_UNAVAILABLE")
			i.Behave(t, "")
			check.Holds(t, "the verifier", func() bool { _, reason := ask(t, v, i.Token(t, nil)); return reason == "" })
		})
	}
	i := issuertest.Start(t)
	v := start(t, nil, configOf(i, func(c *token.Issuer) { c.Source.Roots = nil }))
	want(t, v, "a strange certificate", i.Token(t, nil), "IDENTITY_UNAVAILABLE")
}

// TestSecretOfAnIssuer: the URL of keys, whose query may have a secret, is in no log.
func TestSecretOfAnIssuer(t *testing.T) {
	t.Parallel()
	i := issuertest.Start(t)
	i.Behave(t, "500")
	var log strings.Builder
	v := token.New(directory(), token.Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
	v.Replace([]token.Issuer{configOf(i, func(c *token.Issuer) { c.JWKS = i.URL + "/keys?key=hidden" })})
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { v.Run(ctx) })
	check.Holds(t, "a failed fetch", func() bool { return v.Stats()[0].Failed > 0 })
	stop()
	check.Ended(t, &running, "the verifier to stop")
	if text := log.String(); !strings.Contains(text, "cannot be fetched") || strings.Contains(text, "hidden") {
		t.Errorf("%s", text)
	}
}

// TestTheEnd: no call waits for a Verifier that has ended.
func TestTheEnd(t *testing.T) {
	t.Parallel()
	i := issuertest.Start(t)
	v := token.New(directory(), token.Options{})
	v.Replace([]token.Issuer{configOf(i, nil)})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	v.Run(ctx)
	want(t, v, "ended", i.Token(t, nil), "IDENTITY_UNAVAILABLE")
}

// TestAKnownTokenCostsNothing: cached tokens and texts that are not tokens cause no allocation.
func TestAKnownTokenCostsNothing(t *testing.T) {
	i := issuertest.Start(t)
	v := start(t, nil, configOf(i, func(c *token.Issuer) { c.Asserts = tenant.User }))
	raw := i.Token(t, nil)
	want(t, v, "first", raw, "")
	for _, credential := range []string{raw, "garbled", strings.Repeat(".", 9000)} {
		if n := testing.AllocsPerRun(100,
			func() { _, _, _ = v.Lookup(tenant.Credentials{Credential: credential, User: "bob"}) }); n != 0 {
			t.Errorf("%v allocations for %.10s", n, credential)
		}
	}
}

func BenchmarkIdentify(b *testing.B) {
	i := issuertest.Start(b)
	v := start(b, nil, configOf(i, nil))
	raw := i.TokenBy(b, "RS256", nil)
	want(b, v, "first", raw, "")
	b.Run("known", func(b *testing.B) {
		b.SetBytes(int64(len(raw)))
		b.ReportAllocs()
		for b.Loop() {
			_, _, _ = v.Lookup(tenant.Credentials{Credential: raw})
		}
	})
	for _, alg := range []string{"RS256", "ES256", "EdDSA"} {
		forged := i.TokenBy(b, alg, nil)
		forged = forged[:len(forged)-8] + "AAAAAAAA"[:7] + "A"
		b.Run("forged "+alg, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, _ = v.Authenticate(b.Context(), tenant.Credentials{Credential: forged})
			}
		})
	}
}
