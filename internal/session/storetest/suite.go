// Package storetest has the tests that every session.Store passes.
package storetest

import (
	"testing"
	"time"

	"github.com/capgate/capgate/internal/lib/changefeed"
	"github.com/capgate/capgate/internal/session"
	"github.com/capgate/capgate/internal/testkit/contract"
)

// Suite returns the tests.
func Suite() contract.Suite[session.Store] {
	return contract.Suite[session.Store]{
		"sessions and revocations are shared": testShared,
	}
}

func testShared(t *testing.T, open func() session.Store) {
	ctx, a, b := t.Context(), open(), open()
	now := time.Now().Truncate(time.Millisecond)
	for n, id := range []string{"s1", "s2", "s3"} {
		if err := a.Add(ctx, session.Record{ID: id, Name: "ann, issuer corp", Kind: session.Admin,
			Issued: now.Add(time.Duration(n) * time.Second), Expires: now.Add(time.Hour)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := a.Add(ctx, session.Record{ID: "old", Expires: now.Add(-time.Hour)}); err != nil {
		t.Fatal(err)
	}
	list, err := b.List(ctx)
	if err != nil || len(list) != 3 || list[0].ID != "s3" || list[2].ID != "s1" ||
		!list[2].Issued.Equal(now) || list[2].Kind != session.Admin {
		t.Fatalf("%+v, %v", list, err)
	}
	start, none, err := b.Revoked(ctx, changefeed.Position{})
	if err != nil || len(none) != 0 || start.Epoch == "" {
		t.Fatalf("%+v, %v, %v", start, none, err)
	}
	until := now.Add(time.Hour)
	revoked := []session.Revocation{{Session: "s2", Until: until},
		{Name: "bob o'hara, issuer corp", Before: now, Until: until}}
	if err = a.Revoke(ctx, revoked); err != nil {
		t.Fatal(err)
	}
	at, got, err := b.Revoked(ctx, start)
	if err != nil || len(got) != 2 || got[0].Session != "s2" || !got[0].Until.Equal(until) ||
		got[1].Name != revoked[1].Name || !got[1].Before.Equal(now) || at.Version <= start.Version {
		t.Fatalf("%+v, %+v, %v", at, got, err)
	}
	if again, more, err := b.Revoked(ctx, at); err != nil || len(more) != 0 || again != at {
		t.Errorf("%+v, %+v, %v", again, more, err)
	}
	if _, all, err := b.Revoked(ctx, changefeed.Position{Epoch: "another", Version: 7}); err != nil || len(all) != 2 {
		t.Errorf("of another epoch: %+v, %v", all, err)
	}
	if list, err = b.List(ctx); err != nil || len(list) != 2 {
		t.Errorf("%+v, %v", list, err)
	}
}
