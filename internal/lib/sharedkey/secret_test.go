package sharedkey_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/capgate/capgate/internal/lib/sharedkey"
	"github.com/capgate/capgate/internal/testkit/check"
)

var epoch = time.Unix(1_800_000_000, 0)

// store is a store of one secret, which can be unavailable. It counts the queries.
type store struct {
	secret      []byte
	unavailable bool
	queries     int
}

func (s *store) SharedSecret(ctx context.Context, proposal []byte) ([]byte, error) {
	s.queries++
	if s.unavailable || ctx.Err() != nil {
		return nil, errors.New("unavailable")
	}
	if s.secret == nil {
		s.secret = bytes.Clone(proposal)
	}
	return s.secret, nil
}

func secretOf(b byte) []byte { return bytes.Repeat([]byte{b}, sharedkey.Bytes) }

// TestKeysOfAPurposeStayTheSame: all replicas, also those of another version, derive the same keys.
func TestKeysOfAPurposeStayTheSame(t *testing.T) {
	t.Parallel()
	got := sharedkey.Derive([][]byte{secretOf(1), secretOf(2)}, "urls")
	const want = "0b47ad0c18774be2bc775ed4da8a53719ae0c9642ddf8f60f8c056080bc4fc15"
	if len(got) != 2 || hex.EncodeToString(got[0]) != want {
		t.Errorf("%x", got)
	}
	if other := sharedkey.Derive([][]byte{secretOf(1)}, "sessions"); bytes.Equal(other[0], got[0]) {
		t.Error("two purposes have one key")
	}
	if none := sharedkey.Derive(nil, "urls"); none != nil {
		t.Errorf("%x", none)
	}
}

// TestSecretOfTheFileBeforeThatOfTheStore: secrets of a file rotate in place of the shared one.
func TestSecretOfTheFileBeforeThatOfTheStore(t *testing.T) {
	t.Parallel()
	of := &store{}
	secret := sharedkey.New(of, nil)
	keys := secret.Keys("urls")
	load := func() [][]byte {
		t.Helper()
		all, err := keys.Load(t.Context())
		check.Must(t, err)
		return all
	}
	for _, all := range [][][]byte{{secretOf(1)}, {secretOf(2), secretOf(1)}, {secretOf(2)}} {
		secret.Replace(all)
		if got := load(); !slices.EqualFunc(got, sharedkey.Derive(all, "urls"), bytes.Equal) || of.queries != 0 {
			t.Errorf("%x, %d queries", got, of.queries)
		}
	}
	secret.Replace(nil)
	if got := load(); !bytes.Equal(got[0], sharedkey.Derive([][]byte{of.secret}, "urls")[0]) {
		t.Errorf("%x", got)
	}
	secret.Replace([][]byte{secretOf(1)})
	if got := load(); !bytes.Equal(got[0], sharedkey.Derive([][]byte{secretOf(1)}, "urls")[0]) {
		t.Errorf("after the shared one: %x", got)
	}
}

// TestSharedSecretSurvivesTheStore: replicas share a secret. It stays while the store is unavailable, and a store that
// has lost it gets it back.
func TestSharedSecretSurvivesTheStore(t *testing.T) {
	t.Parallel()
	now := epoch
	clock := func() time.Time { return now }
	of := &store{unavailable: true}
	one, two := sharedkey.New(of, clock).Keys("urls"), sharedkey.New(of, clock).Keys("urls")
	if keys, err := one.Load(t.Context()); err == nil || keys != nil {
		t.Errorf("%x, %v", keys, err)
	}
	of.unavailable = false
	same := func(what string, want []byte) []byte {
		t.Helper()
		a, err := one.Load(t.Context())
		check.Must(t, err)
		b, err := two.Load(t.Context())
		check.Must(t, err)
		if !bytes.Equal(a[0], b[0]) || want != nil && !bytes.Equal(a[0], want) {
			t.Errorf("%s: %x, %x", what, a, b)
		}
		return a[0]
	}
	want := same("first", nil)
	of.unavailable, now = true, now.Add(2*time.Minute)
	same("unavailable", want)
	of.unavailable, of.secret, now = false, nil, now.Add(2*time.Minute)
	same("lost", want)
	of.secret, now = secretOf(3), now.Add(2*time.Minute)
	same("replaced", sharedkey.Derive([][]byte{secretOf(3)}, "urls")[0])
	of.secret, now = []byte("short"), now.Add(2*time.Minute)
	same("of another length", sharedkey.Derive([][]byte{secretOf(3)}, "urls")[0])
}

// TestKeysDoNotWaitForTheStore: while the store is unavailable, Recent queries it once in a while, and the last keys
// stay.
func TestKeysDoNotWaitForTheStore(t *testing.T) {
	t.Parallel()
	now := epoch
	of := &store{unavailable: true}
	keys := sharedkey.New(of, func() time.Time { return now }).Keys("mcp")
	expect := func(known bool, queries int) {
		t.Helper()
		if got := keys.Recent(t.Context()); len(got) > 0 != known || of.queries != queries {
			t.Errorf("%d keys, %d queries; want %v, %d", len(got), of.queries, known, queries)
		}
	}
	expect(false, 1)
	expect(false, 1)
	of.unavailable, now = false, now.Add(time.Minute)
	expect(true, 2)
	expect(true, 2)
	of.unavailable, now = true, now.Add(time.Hour)
	expect(true, 3)
	expect(true, 3)
}

// TestACallerThatLeavesDelaysNoOther: the first call waits for the store again if the one before it was cancelled.
func TestACallerThatLeavesDelaysNoOther(t *testing.T) {
	t.Parallel()
	keys := sharedkey.New(&store{}, func() time.Time { return epoch }).Keys("mcp")
	gone, leave := context.WithCancel(t.Context())
	leave()
	if got := keys.Recent(gone); got != nil {
		t.Errorf("%x", got)
	}
	if got := keys.Recent(t.Context()); len(got) != 1 {
		t.Errorf("%d keys, want 1", len(got))
	}
}
