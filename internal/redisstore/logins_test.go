package redisstore_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/capgate/capgate/gateway/upstream/logins"
	"github.com/capgate/capgate/internal/redisstore"
	"github.com/capgate/capgate/internal/testkit/check"
)

// TestLogins: a login is stored with its challenge, and replaced under its version. It remains if
// another bond is read or challenged.
func TestLogins(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		ctx := t.Context()
		one, two := open().Logins(), open().Logins()
		read := func(fleet, bond, want string) {
			t.Helper()
			s, err := two.Read(ctx, fleet, bond)
			if got := s.Version + " " + string(s.Value) + " " + string(s.Challenge); got != want || err != nil {
				t.Errorf("%s of %s: %q, %v; want %q", fleet, bond, got, err, want)
			}
		}
		of := func(bond, version string) logins.Stored {
			return logins.Stored{Bond: bond, Version: version, Value: []byte("value"), Challenge: []byte("challenge")}
		}
		read("files", "b", "  ")
		check.Must(t, one.Challenge(ctx, "files", "b", []byte("first")))
		read("files", "b", "  first")
		check.Must(t, one.Write(ctx, "files", of("b", "v1"), "", ""))
		read("files", "b", "v1 value challenge")
		read("mail", "b", "  ")
		if err := two.Write(ctx, "files", of("b", "v3"), "v2", ""); !errors.Is(err, logins.ErrChanged) {
			t.Errorf("a write of another version: %v", err)
		}
		check.Must(t, two.Write(ctx, "files", of("b", "v2"), "v1", ""))
		check.Must(t, one.Challenge(ctx, "files", "b", []byte("next")))
		read("files", "b", "v2 value next")
		read("files", "c", "  ")
		read("files", "b", "v2 value next")
		check.Must(t, one.Challenge(ctx, "files", "c", []byte("other")))
		read("files", "c", "  other")
		read("files", "b", "v2 value ")
		check.Must(t, one.Write(ctx, "files", of("c", "v1"), "", ""))
		read("files", "b", "  ")
		for _, want := range []bool{true, false} {
			if found, err := two.Delete(ctx, "files"); found != want || err != nil {
				t.Errorf("deleted: %t, %v", found, err)
			}
		}
		read("files", "b", "  ")
	})
}

// TestLoginLeases: one id has the lease of a version of a login, until its write, another login or its end.
func TestLoginLeases(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		ctx := t.Context()
		l := open().Logins()
		lease := func(version, id string, d time.Duration, want bool, fails error) {
			t.Helper()
			if held, err := l.Lease(ctx, "files", version, id, d); held != want || !errors.Is(err, fails) {
				t.Errorf("%s of %s: %t, %v", id, version, held, err)
			}
		}
		write := func(version, was, id string) {
			t.Helper()
			check.Must(t, l.Write(ctx, "files", logins.Stored{Bond: "b", Version: version}, was, id))
		}
		lease("v1", "a", time.Hour, false, logins.ErrChanged)
		write("v1", "", "")
		lease("v1", "a", time.Hour, true, nil)
		lease("v1", "b", time.Hour, false, nil)
		write("v2", "v1", "b") // has no lease
		lease("v2", "b", time.Hour, false, nil)
		write("v3", "v2", "a")
		lease("v2", "b", time.Hour, false, logins.ErrChanged)
		lease("v3", "b", time.Hour, true, nil)
		write("v4", "", "")
		lease("v4", "c", time.Millisecond, true, nil)
		check.Until(t, "the end of the lease", func() (bool, string) {
			held, err := l.Lease(ctx, "files", "v4", "d", time.Hour)
			check.Must(t, err)
			return held, ""
		})
	})
}

// TestChangedLogins: replicas are notified of logins that are stored or deleted, and not of challenges.
func TestChangedLogins(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		l, other := open().Logins(), open().Logins()
		ctx, stop := context.WithCancel(t.Context())
		changed, missed := make(chan string, 10), make(chan struct{}, 10)
		var watching sync.WaitGroup
		watching.Go(func() {
			other.Watch(ctx, func(fleet string) { changed <- fleet }, func() { missed <- struct{}{} })
		})
		defer watching.Wait()
		defer stop()
		check.Received(t, missed, "the subscription")
		check.Must(t, l.Challenge(ctx, "silent", "b", []byte("c")))
		check.Must(t, l.Write(ctx, "files", logins.Stored{Bond: "b", Version: "v"}, "", ""))
		if got := check.Received(t, changed, "a login"); got != "files" {
			t.Error(got)
		}
		_, err := l.Delete(ctx, "mail")
		check.Must(t, err)
		if got := check.Received(t, changed, "a logout"); got != "mail" {
			t.Error(got)
		}
	})
}

// TestMalformedLogins: a key of another type counts as no login.
func TestMalformedLogins(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		s := open()
		check.Must(t, s.Probe().Do(t.Context(), func(ctx context.Context, r redis.Cmdable) error {
			return r.Set(ctx, redisstore.LoginKey(s.Logins(), "files"), "x", 0).Err()
		}))
		if got, err := s.Logins().Read(t.Context(), "files", "b"); err != nil || got.Version != "" {
			t.Errorf("%+v, %v", got, err)
		}
	})
}
