package assertion_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/capgate/capgate/internal/assertion"
	"github.com/capgate/capgate/internal/lib/sharedkey"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/issuertest"
)

const server = "https://files.example.com/mcp"

var (
	epoch = time.Unix(1_800_000_000, 0)
	used  = assertion.Settings{Issuer: "https://gateway.example.com", Used: true}
)

func clock() time.Time { return epoch }

func secretOf(b byte) []byte { return bytes.Repeat([]byte{b}, sharedkey.Bytes) }

// signerOf returns a signer with the secrets of a file.
func signerOf(t testing.TB, secrets ...byte) (*assertion.Signer, *sharedkey.Secret) {
	t.Helper()
	secret := sharedkey.New(nil, nil)
	replace(secret, secrets...)
	s := assertion.New(secret.Keys("assertions"), used, clock)
	s.Load(t.Context())
	return s, secret
}

func replace(secret *sharedkey.Secret, secrets ...byte) {
	var all [][]byte
	for _, b := range secrets {
		all = append(all, secretOf(b))
	}
	secret.Replace(all)
}

func signed(t testing.TB, s *assertion.Signer, c assertion.Caller) string {
	t.Helper()
	text, err := s.Sign(server, &c)
	check.Must(t, err)
	return text
}

func setOf(s *assertion.Signer) []byte {
	set, _ := s.Keys()
	return set
}

// TestClaims: each kind of caller has a subject of its own, which no name of another one can imitate.
func TestClaims(t *testing.T) {
	t.Parallel()
	s, _ := signerOf(t, 1)
	seen := map[string]string{}
	for want, c := range map[string]assertion.Caller{
		`{"sub":"acme/user/ann","caller":"user","tenant":"acme","user":"ann","agent":"planner","credential":"k1",` +
			`"request_id":"r1"}`: {Verified: true, Tenant: "acme", User: "ann", Agent: "planner", Credential: "k1",
			RequestID: "r1"},
		`{"sub":"acme/u1/user/ann","caller":"user","tenant":"acme","tenant_uid":"u1","user":"ann"}`: {Verified: true,
			Tenant: "acme", UID: "u1", User: "ann"},
		`{"sub":"globex/user/ann","caller":"user","tenant":"globex","user":"ann"}`: {Verified: true, Tenant: "globex",
			User: "ann"},
		`{"sub":"acme/unverified/ann","caller":"unverified","tenant":"acme","user":"ann"}`: {Tenant: "acme",
			User: "ann"},
		`{"sub":"acme/operator/eve%2C%20issuer%20corp","caller":"operator","tenant":"acme","user":"ann","agent":"a"}`: {
			Operator: "eve, issuer corp", Tenant: "acme", User: "ann", Agent: "a"},
		`{"sub":"acme/operator/eve","caller":"operator","tenant":"acme"}`: {Operator: "eve", Tenant: "acme"},
		`{"sub":"acme/user/operator%2Feve","caller":"user","tenant":"acme","user":"operator/eve"}`: {Verified: true,
			Tenant: "acme", User: "operator/eve"},
		`{"sub":"acme/credential/k1","caller":"credential","tenant":"acme","credential":"k1"}`: {Verified: true,
			Tenant: "acme", Credential: "k1"},
		`{"sub":"acme/anonymous","caller":"anonymous","tenant":"acme"}`: {Tenant: "acme"},
		`{"sub":"/anonymous","caller":"anonymous"}`:                     {},
		`{"sub":"gateway","caller":"gateway"}`: {Gateway: true, Verified: true, Tenant: "acme", User: "ann",
			Agent: "a", Operator: "o", Credential: "k", RequestID: "r"},
		`{"sub":"acme/user/gateway","caller":"user","tenant":"acme","user":"gateway"}`: {Verified: true, Tenant: "acme",
			User: "gateway"},
		`{"sub":"acme/user/..%2Fglobex%2Fuser%2Fann","caller":"user","tenant":"acme","user":"../globex/user/ann"}`: {
			Verified: true, Tenant: "acme", User: "../globex/user/ann"},
		`{"sub":"acme/user/ann%FF","caller":"user","tenant":"acme","user":"ann�"}`: {Verified: true, Tenant: "acme",
			User: "ann\xff"},
		`{"sub":"acme/user/ann%FE","caller":"user","tenant":"acme","user":"ann�"}`: {Verified: true, Tenant: "acme",
			User: "ann\xfe"},
		`{"sub":"acme/anonymous","caller":"anonymous","tenant":"acme","request_id":"` + strings.Repeat("r", 128) +
			`"}`: {Tenant: "acme", RequestID: strings.Repeat("r", 1<<20)},
	} {
		decoded, err := assertion.Decode(c.Encode())
		check.Must(t, err)
		got, err := issuertest.Verify(setOf(s), signed(t, s, *decoded), server, epoch)
		check.Must(t, err)
		for name, value := range map[string]any{"iss": "https://gateway.example.com", "aud": server,
			"iat": 1_800_000_000.0, "exp": 1_800_000_060.0} {
			if got[name] != value {
				t.Errorf("%s: %v, want %v", name, got[name], value)
			}
			delete(got, name)
		}
		if id, _ := got["jti"].(string); len(id) < 20 || seen[id] != "" {
			t.Errorf("jti %q", id)
		} else {
			seen[id] = want
		}
		delete(got, "jti")
		var claims map[string]any
		check.Must(t, json.Unmarshal([]byte(want), &claims))
		if !sameJSON(got, claims) {
			t.Errorf("%v, want %s", got, want)
		}
	}
}

func sameJSON(a, b any) bool {
	one, _ := json.Marshal(a)
	other, _ := json.Marshal(b)
	return bytes.Equal(one, other)
}

// TestOnlyTheServerAndTheMinuteCount: a token is for one audience, for a minute, and nothing of it can be changed.
func TestOnlyTheServerAndTheMinuteCount(t *testing.T) {
	t.Parallel()
	s, _ := signerOf(t, 1)
	other, _ := signerOf(t, 2)
	text := signed(t, s, assertion.Caller{Tenant: "acme"})
	parts := strings.Split(text, ".")
	payload := signed(t, s, assertion.Caller{Tenant: "globex"})
	for name, test := range map[string]struct {
		set         []byte
		token, aud  string
		at          time.Time
		wrong, fits bool
	}{
		"valid":           {token: text, aud: server, at: epoch.Add(59 * time.Second), fits: true},
		"another server":  {token: text, aud: "https://other.example.com/mcp", at: epoch},
		"expired":         {token: text, aud: server, at: epoch.Add(61 * time.Second)},
		"another gateway": {set: setOf(other), token: text, aud: server, at: epoch},
		"another payload": {token: parts[0] + "." + strings.Split(payload, ".")[1] + "." + parts[2], aud: server,
			at: epoch},
	} {
		set := test.set
		if set == nil {
			set = setOf(s)
		}
		if _, err := issuertest.Verify(set, test.token, test.aud, test.at); (err == nil) != test.fits {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestRotation: replicas with the same secrets have the same keys. A secret that is second is published before it
// signs, and as long as the former one is second, its tokens are valid.
func TestRotation(t *testing.T) {
	t.Parallel()
	one, secret := signerOf(t, 1)
	two, _ := signerOf(t, 1)
	before := signed(t, one, assertion.Caller{Tenant: "acme"})
	valid := func(set []byte, text string) bool {
		_, err := issuertest.Verify(set, text, server, epoch)
		return err == nil
	}
	if !valid(setOf(two), before) || !bytes.Equal(setOf(one), setOf(two)) {
		t.Fatal("replicas have different keys")
	}
	for _, step := range []struct {
		secrets             []byte
		old, signsWithFirst bool // the token of before is valid; the new one is of the first key
	}{{[]byte{1, 2}, true, true}, {[]byte{2, 1}, true, false}, {[]byte{2}, false, false}} {
		replace(secret, step.secrets...)
		one.Set(used)
		now := signed(t, one, assertion.Caller{Tenant: "acme"})
		if !valid(setOf(one), now) || valid(setOf(one), before) != step.old ||
			valid(setOf(two), now) != step.signsWithFirst {
			t.Errorf("secrets %d: %s", step.secrets, setOf(one))
		}
	}
}

// lateStore is a store that is unavailable at first.
type lateStore struct{ there atomic.Bool }

func (s *lateStore) SharedSecret(context.Context, []byte) ([]byte, error) {
	if !s.there.Load() {
		return nil, errors.New("unavailable")
	}
	return secretOf(1), nil
}

// TestNoKeyNoToken: without a key nothing is signed or published. The store is queried only while some fleet requires
// assertions, and again after it was unavailable.
func TestNoKeyNoToken(t *testing.T) {
	t.Parallel()
	check.Bubble(t, func(t *testing.T) {
		store := &lateStore{}
		s := assertion.New(sharedkey.New(store, nil).Keys("assertions"), assertion.Settings{}, nil)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go s.Run(ctx)
		expect := func(what string, there, wanted bool) {
			t.Helper()
			time.Sleep(time.Minute) //nolint:forbidigo // of the bubble's clock
			_, err := s.Sign(server, &assertion.Caller{})
			set, used := s.Keys()
			if (err == nil) != there || s.Ready() != there || err != nil && !errors.Is(err, assertion.ErrNoKey) ||
				(set != nil) != there || used != wanted {
				t.Errorf("%s: %v, %s, %t", what, err, set, used)
			}
		}
		store.there.Store(true)
		expect("not used", false, false)
		store.there.Store(false)
		s.Set(used)
		expect("unavailable", false, true)
		store.there.Store(true)
		expect("there", true, true)
		store.there.Store(false)
		expect("unavailable again", true, true)
		s.Set(assertion.Settings{})
		expect("not used any more", true, false)
	})
}

// BenchmarkSign measures what a request with an assertion costs more.
func BenchmarkSign(b *testing.B) {
	s, _ := signerOf(b, 1)
	c := &assertion.Caller{Verified: true, Tenant: "acme", User: "ann@example.com", Agent: "planner",
		Credential: "mzxw6ytboi4tcmrt", RequestID: "ABCDEFGHIJKLMNOPQRSTUVWXYZ"}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Sign(server, c); err != nil {
			b.Fatal(err)
		}
	}
}
