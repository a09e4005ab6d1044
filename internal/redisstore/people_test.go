package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/capgate/capgate/internal/lib/changefeed"
	"github.com/capgate/capgate/internal/lib/sharedkey"
	"github.com/capgate/capgate/internal/redisstore"
	"github.com/capgate/capgate/internal/session"
	"github.com/capgate/capgate/internal/session/storetest"
	"github.com/capgate/capgate/internal/testkit/check"
)

// TestPeople: replicas share revocations and the list of sessions.
func TestPeople(t *testing.T) {
	runContract(t, storetest.Suite(), func(s *redisstore.Store) session.Store { return s.People() })
}

// TestPeopleAreBounded: the list forgets the sessions that end first.
func TestPeopleAreBounded(t *testing.T) {
	t.Parallel()
	p, now := open(t, redisstore.Config{}).People(), time.Now()
	for n := range session.MaxRecords + 3 {
		if err := p.Add(t.Context(), session.Record{ID: fmt.Sprint(n),
			Expires: now.Add(time.Hour + time.Duration(n)*time.Second)}); err != nil {
			t.Fatal(err)
		}
	}
	list, err := p.List(t.Context())
	if err != nil || len(list) != session.MaxRecords {
		t.Fatal(len(list), err)
	}
	for _, r := range list {
		if r.ID == "0" || r.ID == "2" {
			t.Errorf("the list has %s", r.ID)
		}
	}
}

// TestPeopleLearn: replicas end revoked sessions, and a store that lost the revocations gets them back.
func TestPeopleLearn(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		ctx := t.Context()
		stores := []*redisstore.Store{open(), open()}
		var replicas []*session.Manager
		for _, s := range stores {
			m := session.New(s.People(), session.Options{Keys: sharedkey.New(s.Secret(), nil).Keys("sessions")})
			go m.Run(ctx)
			replicas = append(replicas, m)
		}
		ann := &session.Session{Via: session.ViaPerson, User: "ann", Issuer: "corp"}
		cookie, refusal := replicas[0].Issue(ctx, session.Admin, ann)
		if refusal != nil {
			t.Fatal(refusal)
		}
		if s, refusal := replicas[1].Open(ctx, session.Admin, cookie); refusal != nil || s.User != "ann" {
			t.Fatalf("got %+v, %v", s, refusal)
		}
		alive, cancel := replicas[0].Follow(ctx, func(context.Context) bool { return replicas[0].Valid(ann) })
		defer cancel()
		if refusal := replicas[1].EndAll(ctx, ann.Name()); refusal != nil {
			t.Fatal(refusal)
		}
		check.Received(t, alive.Done(), "the end of a stream")
		for _, m := range replicas {
			check.Holds(t, "the end of the session", func() bool { return !m.Valid(ann) })
		}
		p := stores[0].Probe()
		if err := p.Do(ctx, func(ctx context.Context, r redis.Cmdable) error {
			return r.Del(ctx, p.KeyOf("people", "state"), p.KeyOf("people", "revoked"), p.KeyOf("people", "ends")).Err()
		}); err != nil { // at once, so that no replica sees a part
			t.Fatal(err)
		}
		check.Until(t, "the revocations to be back", func() (bool, string) {
			_, all, err := open().People().Revoked(ctx, changefeed.Position{})
			return err == nil && len(all) == 2, fmt.Sprint(all, err)
		})

	})
}

// TestPeopleAfterAFailover: revocations that a failover has undone are restored once a replica that knows them has
// read. Such a replica misses no revocation from before its read.
func TestPeopleAfterAFailover(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		ctx, store := t.Context(), open()
		m, until, at := session.New(store.People(), session.Options{}), time.Now().Add(time.Hour), changefeed.Position{}
		end := func(m *session.Manager, id string) {
			t.Helper()
			if refusal := m.End(ctx, id, until); refusal != nil {
				t.Fatal(refusal)
			}
		}
		// failOver undoes all changes after at.
		failOver := func() {
			t.Helper()
			p, version := store.Probe(), strconv.FormatUint(at.Version, 10)
			check.Must(t, p.Do(ctx, func(ctx context.Context, r redis.Cmdable) error {
				return errors.Join(r.ZRemRangeByScore(ctx, p.KeyOf("people", "revoked"), "("+version, "+inf").Err(),
					r.HSet(ctx, p.KeyOf("people", "state"), "version", version).Err())
			}))
		}
		end(m, "s1")
		at, _, err := store.People().Revoked(ctx, at)
		check.Must(t, err)
		end(m, "s2")
		m.Read(ctx)
		failOver()
		m.Read(ctx)
		_, all, err := open().People().Revoked(ctx, changefeed.Position{})
		if err != nil || len(all) != 2 {
			t.Errorf("got %+v, %v", all, err)
		}
		m.Read(ctx)
		failOver()
		other := session.New(store.People(), session.Options{})
		end(other, "s3")
		end(other, "s4")
		m.Read(ctx)
		if m.Valid(&session.Session{ID: "s3", Expires: until}) {
			t.Error("a revocation after the failover is missed")
		}
	})
}

// TestNoOwnerFillsTheRevocations: a tenant has a share of the revoked sessions, and other tenants can always end
// theirs. A revocation of all sessions of a person takes room once. None is lost.
func TestNoOwnerFillsTheRevocations(t *testing.T) {
	t.Parallel()
	ctx, p, until := t.Context(), open(t, redisstore.Config{}).People(), time.Now().Add(time.Hour)
	revoke := func(owner string, from, n int) error {
		var all []session.Revocation
		for i := range n {
			all = append(all, session.Revocation{Session: fmt.Sprint(owner, from+i), Until: until, Owner: owner})
		}
		return p.Revoke(ctx, all)
	}
	held := 0
	for ; held <= session.MaxRevocations; held += 2000 {
		if err := revoke("acme", held, 2000); errors.Is(err, session.ErrFull) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if held < session.MaxRevocations/2 || held > session.MaxRevocations*4/5 {
		t.Errorf("one owner has %d revocations", held)
	}
	if err := revoke("globex", 0, 1000); err != nil {
		t.Errorf("another owner: %v", err)
	}
	for i := range 5 {
		at := time.Now().Add(time.Duration(i) * time.Second)
		if err := p.Revoke(ctx, []session.Revocation{{Name: "ann", Before: at, Until: until}}); err != nil {
			t.Errorf("all sessions of a person: %v", err)
		}
	}
	if _, all, err := p.Revoked(ctx, changefeed.Position{}); err != nil || len(all) != held+1000+1 {
		t.Errorf("%d revocations, want %d; %v", len(all), held+1001, err)
	}
}
