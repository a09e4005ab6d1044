package tenant_test

import (
	"context"
	"encoding/base64"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/sharedkey"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/internal/testkit/check"
)

// sharedKeys is a store of one key, which can be unavailable.
type sharedKeys struct {
	mu          sync.Mutex
	key         []byte
	unavailable bool
}

func (s *sharedKeys) SharedSecret(_ context.Context, proposal []byte) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.unavailable {
		return nil, errors.New("unavailable")
	}
	if s.key == nil {
		s.key = proposal
	}
	return s.key, nil
}

func (s *sharedKeys) set(key []byte, unavailable bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.key, s.unavailable = key, unavailable
}

// signaturesOf returns the signatures of a replica that shares the store.
func signaturesOf(
	tenants tenant.Tenants, holders *tenant.Authenticators, store sharedkey.Store, now func() time.Time,
) *tenant.Signatures {
	return tenant.NewSignatures(tenants, holders, sharedkey.New(store, now).Keys("urls"), now)
}

// directory is a directory of tenants.
type directory map[string]*tenant.Settings

func (d directory) Lookup(id string) (*tenant.Settings, bool) { return d[id], true }

func (d directory) Settings(_ context.Context, id string) (*tenant.Settings, *call.Refusal) {
	return d[id], nil
}

func grant(until time.Time) tenant.SignedGrant {
	return tenant.SignedGrant{Download: tenant.Download{Capability: "caps", Artifact: "a/ö&=1", Session: "s"},
		Tenant: "acme", Key: "k", Expires: until}
}

func showSigned(s *tenant.Signatures, token string) (tenant.Identity, *call.Refusal) {
	if who, known, refusal := s.Lookup(tenant.Credentials{Signature: token}); known {
		return who, refusal
	}
	return s.Authenticate(context.Background(), tenant.Credentials{Signature: token})
}

func sign(t *testing.T, s *tenant.Signatures, g tenant.SignedGrant) string {
	t.Helper()
	token, refusal := s.Sign(t.Context(), g)
	if refusal != nil {
		t.Fatal(refusal.Message)
	}
	return token
}

// TestSignatures: a signature is valid for the signed request, at every replica, until it expires. A rejection has no
// reason.
func TestSignatures(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_800_000_000, 0)
	clock := func() time.Time { return now }
	tenants, store := directory{"acme": {ID: "acme"}, "off": {ID: "off", Disabled: true}}, &sharedKeys{}
	one, two := signaturesOf(tenants, nil, store, clock), signaturesOf(tenants, nil, store, clock)
	token := sign(t, one, grant(now.Add(time.Minute)))
	who, refusal := showSigned(two, token)
	if refusal != nil || who.Tenant != "acme" || who.Key != "k" || who.Scopes != tenant.Invoke || who.Only == nil ||
		*who.Only != grant(now).Download || who.Settings != tenants["acme"] {
		t.Fatalf("%+v, %v", who, refusal)
	}
	refused := func(what, token string) {
		t.Helper()
		if who, refusal := showSigned(two, token); refusal == nil || refusal.Reason != "SIGNATURE_INVALID" ||
			refusal.Kind != call.PermissionDenied || who != (tenant.Identity{}) {
			t.Errorf("%s: %+v, %v", what, who, refusal)
		}
	}
	payload, mac, _ := strings.Cut(token, ".")
	text, err := base64.RawURLEncoding.DecodeString(payload)
	check.Must(t, err)
	for _, change := range [][2]string{{"acme", "globex"}, {"caps", "cap"}, {"s=s", "s=t"}, {"e=18", "e=19"},
		{"k=k&", ""}} {
		refused(change[0], base64.RawURLEncoding.EncodeToString([]byte(strings.Replace(string(text), change[0],
			change[1], 1)))+"."+mac)
	}
	for what, bad := range map[string]string{"nothing": "", "no tag": payload, "an empty tag": payload + ".",
		"a cut tag": token[:len(token)-4], "a dot": ".", "no base64": "!." + mac,
		"too long": strings.Repeat("a", 9000) + "." + mac} {
		refused(what, bad)
	}
	refused("expired", sign(t, one, grant(now)))
	for _, of := range []string{"off", "nobody"} {
		g := grant(now.Add(time.Minute))
		g.Tenant = of
		refused(of, sign(t, one, g))
	}
	other := signaturesOf(tenants, nil, &sharedKeys{}, clock)
	refused("another's key", sign(t, other, grant(now.Add(time.Minute))))
}

// TestSignaturesOfAnEarlierTenant: a signed URL ends with its tenant, also where another has the tenant's id now.
func TestSignaturesOfAnEarlierTenant(t *testing.T) {
	t.Parallel()
	as := func(uid string) *tenant.Settings {
		r := tenant.Record{ID: "acme", UID: uid}
		return r.Settings(&tenant.Limits{})
	}
	tenants := directory{"acme": as("first")}
	s := signaturesOf(tenants, nil, &sharedKeys{}, nil)
	token := sign(t, s, grant(time.Now().Add(time.Hour)))
	if _, refusal := showSigned(s, token); refusal != nil {
		t.Fatal(refusal.Message)
	}
	tenants["acme"] = as("second")
	if who, refusal := showSigned(s, token); refusal == nil || refusal.Reason != "SIGNATURE_INVALID" {
		t.Errorf("%+v, %v", who, refusal)
	}
	tenants["acme"] = nil
	if who, refusal := showSigned(s, token); refusal == nil || refusal.Reason != "SIGNATURE_INVALID" {
		t.Errorf("%+v, %v", who, refusal)
	}
}

// TestSigningKeys: signatures are refused without a key, and end with the secret of their key.
func TestSigningKeys(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_800_000_000, 0)
	clock := func() time.Time { return now }
	store := &sharedKeys{}
	secret := sharedkey.New(store, clock)
	s := tenant.NewSignatures(nil, nil, secret.Keys("urls"), clock)
	g := grant(now.Add(time.Hour))
	g.Tenant = tenant.Default
	good := func(token string, want bool) {
		t.Helper()
		if _, refusal := showSigned(s, token); (refusal == nil) != want {
			t.Errorf("%v", refusal)
		}
	}
	store.set(nil, true)
	if _, refusal := s.Sign(t.Context(), g); refusal == nil || refusal.Reason != "SIGNATURES_UNAVAILABLE" {
		t.Errorf("%v", refusal)
	}
	store.set(nil, false)
	shared := sign(t, s, g)
	good(shared, true)
	first, second := []byte(strings.Repeat("1", 32)), []byte(strings.Repeat("2", 32))
	secret.Replace([][]byte{first})
	good(shared, false)
	token := sign(t, s, g)
	secret.Replace([][]byte{second, first})
	good(token, true)
	renewed := sign(t, s, g)
	secret.Replace([][]byte{second})
	good(token, false)
	good(renewed, true) // the first key signs
	g.Tenant = "acme"   // from a gateway with tenants
	good(sign(t, s, g), false)
}
