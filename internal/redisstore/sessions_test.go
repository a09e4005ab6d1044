package redisstore_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/capgate/capgate/internal/redisstore"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/router/affinity"
)

var mine = affinity.Session{Tenant: "default", Capability: "caps", ID: "s:{1}\xff"}

func binding(s affinity.Session, addr string, moves uint64) affinity.Binding {
	return affinity.Binding{Session: s, Pin: affinity.Pin{Addr: addr, Moves: moves}, TTL: time.Minute}
}

// bind binds one session.
func bind(t *testing.T, s *redisstore.Sessions, b affinity.Binding) affinity.BindResult {
	t.Helper()
	got, err := s.Bind(t.Context(), []affinity.Binding{b})
	if err != nil || len(got) != 1 {
		t.Fatal(got, err)
	}
	return got[0]
}

func TestFirstToBindASession(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		a, b := open().Sessions(), open().Sessions()
		want := affinity.Pin{Addr: "a:1"}
		if got := bind(t, a, binding(mine, "a:1", 0)); got.Pin != want || !got.New || got.Age != 0 {
			t.Errorf("the first: %+v", got)
		}
		for _, addr := range []string{"b:1", "a:1"} {
			for _, s := range []*redisstore.Sessions{a, b} {
				if got := bind(t, s, binding(mine, addr, 0)); got.Pin != want || got.New {
					t.Errorf("with %s: %+v", addr, got)
				}
			}
		}
		for _, other := range []affinity.Session{
			{Tenant: "other", Capability: mine.Capability, ID: mine.ID}, {Tenant: mine.Tenant, Capability: "other",
				ID: mine.ID},
			{Tenant: mine.Tenant, Capability: mine.Capability, ID: "other"},
		} {
			if got := bind(t, b, binding(other, "b:1", 0)); got.Pin.Addr != "b:1" || !got.New {
				t.Errorf("%v has the pin of another: %+v", other, got)
			}
		}
	})
}

// Of many concurrent bindings one is the first, and all return it.
func TestBindersAgree(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		stores := []*redisstore.Sessions{open().Sessions(), open().Sessions(), open().Sessions()}
		var wg sync.WaitGroup
		answers := make([]affinity.BindResult, 30)
		for i := range answers {
			wg.Go(func() { answers[i] = bind(t, stores[i%3], binding(mine, fmt.Sprintf("b%d:1", i), 0)) })
		}
		check.Ended(t, &wg, "the end of the bindings")
		first := 0
		for _, got := range answers {
			if got.New {
				first++
			}
			if got.Pin != answers[0].Pin {
				t.Errorf("%+v and %+v", got.Pin, answers[0].Pin)
			}
		}
		if first != 1 {
			t.Errorf("%d were the first", first)
		}
	})
}

func TestBindMany(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		a, b := open().Sessions(), open().Sessions()
		var all []affinity.Binding
		for i := range 200 {
			all = append(all, binding(affinity.Session{Tenant: "default", Capability: "caps", ID: fmt.Sprint(i)}, "a:1",
				0))
		}
		bind(t, b, binding(all[7].Session, "b:1", 3))
		got, err := a.Bind(t.Context(), all)
		if err != nil || len(got) != len(all) {
			t.Fatal(len(got), err)
		}
		for i, bound := range got {
			want := affinity.BindResult{Pin: all[i].Pin, New: true, Users: affinity.NoGateway}
			if i == 7 {
				want = affinity.BindResult{Pin: affinity.Pin{Addr: "b:1", Moves: 3}}
				bound.Age = 0
			}
			if bound != want {
				t.Errorf("%d: %+v, want %+v", i, bound, want)
			}
		}
	})
}

// The store records which gateways may have used a pin, and returns that to those that read or move it.
func TestUsersOfPins(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		a, b := open().Sessions(), open().Sessions()
		expect := func(what string, got affinity.BindResult, isNew bool, users affinity.Users) {
			t.Helper()
			if got.New != isNew || got.Users != users {
				t.Errorf("%s: %+v", what, got)
			}
		}
		move := func(s *redisstore.Sessions, addr string, moves uint64, from affinity.Pin,
			idle bool) affinity.BindResult {
			to := binding(mine, addr, moves)
			to.Unused = idle
			got, err := s.Move(t.Context(), to, from)
			if err != nil {
				t.Error(err)
			}
			return got
		}
		first := affinity.Pin{Addr: "a:1"}
		expect("a makes it", bind(t, a, binding(mine, "a:1", 0)), true, affinity.NoGateway)
		expect("a again", bind(t, a, binding(mine, "a:1", 0)), false, affinity.ThisGateway)
		idle := binding(mine, "a:1", 0)
		idle.Unused = true
		expect("b asks only", bind(t, b, idle), false, affinity.OtherGateways)
		expect("a once more", bind(t, a, binding(mine, "a:1", 0)), false, affinity.ThisGateway)
		expect("b uses it", bind(t, b, binding(mine, "a:1", 0)), false, affinity.OtherGateways)
		expect("a is not the only one", bind(t, a, binding(mine, "a:1", 0)), false, affinity.OtherGateways)
		expect("a moves it, and tells of the loss", move(a, "b:1", 1, first, true), true, affinity.OtherGateways)
		expect("a asks that again", move(a, "b:1", 1, first, true), true, affinity.OtherGateways)
		second := affinity.Pin{Addr: "b:1", Moves: 1}
		expect("b comes too late, and is told of the new one", move(b, "c:1", 1, first, true), false,
			affinity.NoGateway)
		expect("a moves what b was told of", move(a, "c:1", 2, second, false), true, affinity.OtherGateways)
		third := affinity.Pin{Addr: "c:1", Moves: 2}
		expect("b moves what a uses", move(b, "", 3, third, true), true, affinity.OtherGateways)
		expect("nobody uses what is nowhere", move(a, "d:1", 4, affinity.Pin{Moves: 3}, false), true,
			affinity.NoGateway)
		expect("its only user moves it", move(a, "e:1", 5, affinity.Pin{Addr: "d:1", Moves: 4}, false), true,
			affinity.ThisGateway)
	})
}

// Of many moves of a pin one succeeds, and stays successful when repeated.
func TestOneMoves(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		stores := []*redisstore.Sessions{open().Sessions(), open().Sessions(), open().Sessions()}
		from := bind(t, stores[0], binding(mine, "a:1", 0)).Pin
		move := func(s *redisstore.Sessions, addr string, moves uint64) affinity.BindResult {
			got, err := s.Move(t.Context(), binding(mine, addr, moves), from)
			if err != nil {
				t.Error(err)
			}
			return got
		}
		var wg sync.WaitGroup
		answers := make([]affinity.BindResult, 3)
		for i := range answers {
			wg.Go(func() { answers[i] = move(stores[i], "b:1", 1) })
		}
		check.Ended(t, &wg, "the end of the moves")
		movers := 0
		for i, got := range answers {
			if got.Pin != (affinity.Pin{Addr: "b:1", Moves: 1}) {
				t.Errorf("%+v", got)
			}
			if again := move(stores[i], "b:1", 1); again.New != got.New || again.Pin != got.Pin {
				t.Errorf("asked again: %+v, before %+v", again, got)
			}
			if got.New {
				movers++
			}
		}
		if movers != 1 {
			t.Errorf("%d moved it", movers)
		}
		if got := move(stores[0], "c:1", 1); got.New || got.Pin.Addr != "b:1" {
			t.Errorf("from a pin that is not in force: %+v", got)
		}
		from = affinity.Pin{Addr: "b:1", Moves: 1}
		if got := move(stores[0], "", 2); !got.New || got.Pin != (affinity.Pin{Moves: 2}) {
			t.Errorf("to nowhere: %+v", got)
		}
		from = affinity.Pin{Moves: 2}
		if got := move(stores[1], "d:1", 3); !got.New || got.Pin != (affinity.Pin{Addr: "d:1", Moves: 3}) {
			t.Errorf("from nowhere: %+v", got)
		}
		mine := affinity.Session{Tenant: "default", Capability: "caps", ID: "never bound"}
		got, err := stores[0].Move(t.Context(), binding(mine, "a:1", 5), affinity.Pin{Addr: "x:1"})
		if err != nil || !got.New || got.Pin != (affinity.Pin{Addr: "a:1", Moves: 5}) {
			t.Errorf("where there is none: %+v, %v", got, err)
		}
	})
}

func TestMovesAreTold(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		a, b := open().Sessions(), open().Sessions()
		ctx, cancel := context.WithCancel(t.Context())
		type move struct {
			session affinity.Session
			pin     affinity.Pin
		}
		moves, missed, ended := make(chan move, 10), make(chan struct{}, 10), make(chan struct{})
		go func() {
			defer close(ended)
			a.Watch(ctx, func(s affinity.Session, p affinity.Pin) {
				moves <- move{s, p}
			}, func() { missed <- struct{}{} })
		}()
		check.Received(t, missed, "the subscription")
		session := affinity.Session{Tenant: "t", Capability: "caps", ID: "ü\"1"}
		from := bind(t, b, binding(session, "a:1", 0)).Pin
		if _, err := b.Move(t.Context(), binding(session, "b:1", 1), from); err != nil {
			t.Fatal(err)
		}
		if got := check.Received(t, moves, "the move"); got != (move{session, affinity.Pin{Addr: "b:1", Moves: 1}}) {
			t.Errorf("%+v", got)
		}
		cancel()
		check.Received(t, ended, "the end of the watch")
	})
}

// A pin expires, unless it is bound again; then the session can get another one.
func TestPinsEnd(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		s := open().Sessions()
		short := binding(mine, "a:1", 0)
		short.TTL = 300 * time.Millisecond
		bind(t, s, short)
		check.Holds(t, "the pin to end", func() bool {
			other := binding(mine, "b:1", 0)
			other.TTL = time.Millisecond
			return bind(t, s, other).Pin.Addr == "b:1"
		})

	})
}

// A malformed value is skipped, and counted.
func TestMalformedPins(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		store := open()
		s, p := store.Sessions(), store.Probe()
		for i, write := range []func(ctx context.Context, r redis.Cmdable, key string) error{
			func(ctx context.Context, r redis.Cmdable, key string) error {
				return r.Set(ctx, key, "nonsense", 0).Err()
			},
			func(ctx context.Context, r redis.Cmdable, key string) error {
				return r.Set(ctx, key, "1 2 a:1 b c", 0).Err()
			},
			func(ctx context.Context, r redis.Cmdable, key string) error {
				return r.Set(ctx, key, strings.Repeat("9", 16)+" 1 a:1 x", 0).Err()
			},
			func(ctx context.Context, r redis.Cmdable, key string) error { return r.Set(ctx, key, "", 0).Err() },
			func(ctx context.Context, r redis.Cmdable, key string) error { return r.LPush(ctx, key, "x").Err() },
		} {
			session := affinity.Session{Tenant: "default", Capability: "caps", ID: fmt.Sprint(i)}
			if err := p.Do(t.Context(), func(ctx context.Context, r redis.Cmdable) error {
				return write(ctx, r, redisstore.PinKey(s, session))
			}); err != nil {
				t.Fatal(err)
			}
			if got := bind(t, s, binding(session, "a:1", 0)); got.Pin.Addr != "a:1" || !got.New {
				t.Errorf("%d: %+v", i, got)
			}
			if n := store.Stats().Malformed; n != int64(i+1) {
				t.Errorf("%d: %d malformed values", i, n)
			}
		}
	})
}

func TestArtifacts(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		store := open()
		a, b, p := store.Sessions(), open().Sessions(), store.Probe()
		file := func(id string) affinity.Artifact {
			return affinity.Artifact{Tenant: "default", Capability: "caps", ID: id}
		}
		holds := func(id, want string) {
			t.Helper()
			if got, err := b.Locate(t.Context(), file(id)); got != want || err != nil {
				t.Errorf("%s is at %q, want %q: %v", id, got, want, err)
			}
		}
		remember := func(h ...affinity.Location) {
			t.Helper()
			for i := range h {
				h[i].TTL = time.Minute
			}
			if _, err := a.StoreLocations(t.Context(), h); err != nil {
				t.Error(err)
			}
		}
		holds("1", "")
		remember(affinity.Location{Artifact: file("1"), Addr: "a:1"},
			affinity.Location{Artifact: file("2"), Addr: "b:1", Authoritative: true})
		holds("1", "a:1")
		holds("2", "b:1")
		remember(affinity.Location{Artifact: file("1"), Addr: "c:1"},
			affinity.Location{Artifact: file("2"), Addr: "c:1", Authoritative: true},
			affinity.Location{Artifact: file("3"), Addr: "c:1"})
		holds("1", "a:1") // an earlier location
		holds("2", "c:1") // an authoritative one
		holds("3", "c:1")
		if got, err := b.Locate(t.Context(), affinity.Artifact{Tenant: "other", Capability: "caps",
			ID: "1"}); got != "" || err != nil {
			t.Errorf("another tenant's: %q, %v", got, err)
		}
		if err := p.Do(t.Context(), func(ctx context.Context, r redis.Cmdable) error {
			key := redisstore.ArtifactKey(a, file("list"))
			if err := r.LPush(ctx, key, "x").Err(); err != nil {
				return err
			}
			return r.Set(ctx, redisstore.ArtifactKey(a, file("long")), strings.Repeat("x", 1000), 0).Err()
		}); err != nil {
			t.Fatal(err)
		}
		before := store.Stats().Malformed
		for _, id := range []string{"list", "long"} {
			if got, err := a.Locate(t.Context(), file(id)); got != "" || err != nil {
				t.Errorf("%s: %.20q, %v", id, got, err)
			}
		}
		if n := store.Stats().Malformed - before; n != 2 {
			t.Errorf("%d malformed values, want 2", n)
		}
	})
}

// A tenant does not get another one's artifact from a result, but it does by uploading the same.
func TestBoundArtifacts(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		s := open().Sessions()
		holding := func(tenant, id string, sure bool) affinity.Location {
			return affinity.Location{Artifact: affinity.Artifact{Tenant: tenant, Capability: "caps", ID: id},
				Addr: "a:1", Authoritative: sure, OwnedOnly: true, TTL: time.Minute}
		}
		for i, step := range []struct {
			told []affinity.Location
			want []bool
		}{
			{[]affinity.Location{holding("a", "1", true), holding("a", "2", false), holding("b", "3", false)},
				[]bool{true, true, true}},
			{[]affinity.Location{holding("b", "1", false), holding("b", "2", false), holding("b", "3", false)},
				[]bool{false, false, true}},
			{[]affinity.Location{holding("b", "1", true), holding("a", "3", false), holding("a", "1", false)},
				[]bool{true, false, true}},
			{[]affinity.Location{holding("b", "1", false)}, []bool{false}}, // it owns it nevertheless
		} {
			if kept, err := s.StoreLocations(t.Context(), step.told); err != nil || !slices.Equal(kept, step.want) {
				t.Errorf("%d: %v, want %v: %v", i, kept, step.want, err)
			}
		}
		for _, test := range []struct{ tenant, id, want string }{{"a", "1", "a:1"}, {"b", "1", "a:1"},
			{"a", "2", "a:1"},
			{"b", "2", ""}, {"b", "3", "a:1"}, {"a", "3", ""}} {
			if got, err := s.Locate(t.Context(), holding(test.tenant, test.id, false).Artifact); got != test.want ||
				err != nil {
				t.Errorf("%s's %s is at %q, want %q: %v", test.tenant, test.id, got, test.want, err)
			}
		}
	})
}
