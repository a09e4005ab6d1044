package redisstore_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/capgate/capgate/internal/redisstore"
	"github.com/capgate/capgate/internal/testkit/check"
)

func TestCommands(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		ctx := t.Context()
		a, b := open().Probe(), open().Probe()
		key := a.Key("words")
		if err := a.Do(ctx, func(ctx context.Context, r redis.Cmdable) error {
			return r.Set(ctx, key, "hello", 0).Err()
		}); err != nil {
			t.Fatal(err)
		}
		var got string
		err := b.Do(ctx, func(ctx context.Context, r redis.Cmdable) (err error) {
			got, err = r.Get(ctx, key).Result()
			return err
		})
		if err != nil || got != "hello" {
			t.Errorf("the other replica reads %q, %v", got, err)
		}
		err = b.Do(ctx, func(ctx context.Context, r redis.Cmdable) error { return r.Get(ctx, b.Key("none")).Err() })
		if !errors.Is(err, redis.Nil) {
			t.Errorf("a key that is not there: %v", err)
		}
	})
}

// A script is sent by its hash after the first time; a server that has lost it gets it again.
func TestScript(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		ctx := t.Context()
		p := open().Probe()
		const add = `return redis.call('HINCRBY', KEYS[1], ARGV[1], ARGV[2]) + redis.call('EXISTS', KEYS[2])`
		keys := []string{p.Key("sum"), p.Key("other")}
		for i := range 3 {
			if got, err := p.Run(ctx, add, keys, "f", 2).Int(); err != nil || got != 2*(i+1) {
				t.Fatalf("run %d: %d, %v", i, got, err)
			}
		}
		if err := p.Do(ctx, func(ctx context.Context, r redis.Cmdable) error {
			return r.ScriptFlush(ctx).Err()
		}); err != nil {
			t.Fatal(err)
		}
		if got, err := p.Run(ctx, add, keys, "f", 2).Int(); err != nil || got != 8 {
			t.Errorf("after the scripts were forgotten: %d, %v", got, err)
		}
	})
}

// Times in Redis advance by themselves, also in the embedded one.
func TestTime(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		ctx := t.Context()
		p := open().Probe()
		const micros = `local t = redis.call('TIME') return t[1] * 1000000 + t[2]`
		first, err := p.Run(ctx, micros, []string{p.Key("clock")}).Int64()
		if err != nil || time.Since(time.UnixMicro(first)).Abs() > time.Hour {
			t.Fatalf("TIME in a script: %v, %v", time.UnixMicro(first), err)
		}
		key := p.Key("short")
		if err := p.Do(ctx, func(ctx context.Context, r redis.Cmdable) error {
			return r.Set(ctx, key, 1, 500*time.Millisecond).Err()
		}); err != nil {
			t.Fatal(err)
		}
		check.Holds(t, "the key to expire", func() bool {
			var left int64
			err := p.Do(ctx, func(ctx context.Context, r redis.Cmdable) (err error) {
				left, err = r.Exists(ctx, key).Result()
				return err
			})
			return err == nil && left == 0
		})

		if last, err := p.Run(ctx, micros, []string{p.Key("clock")}).Int64(); err != nil || last-first < 300_000 {
			t.Errorf("the key that lives for 500 ms was gone after %d µs of Redis' time, %v", last-first, err)
		}
	})
}

func TestSubscribe(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		ctx, cancel := context.WithCancel(t.Context())
		a, b := open().Probe(), open().Probe()
		connected, messages, ended := make(chan struct{}, 10), make(chan string, 10), make(chan struct{})
		go func() {
			defer close(ended)
			a.Subscribe(ctx, a.Channel("news"), func(m string) { messages <- m }, func() { connected <- struct{}{} })
		}()
		check.Received(t, connected, "the subscription")
		for _, want := range []string{"one", "two", strings.Repeat("three", 10_000)} {
			check.Must(t, b.Publish(ctx, b.Channel("news"), want))
			if got := check.Received(t, messages, "a message"); got != want {
				t.Errorf("got %.20q, want %.20q", got, want)
			}
		}
		cancel()
		check.Received(t, ended, "the end of the subscription")
	})
}

func TestStats(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		ctx := t.Context()
		s := open()
		p := s.Probe()
		before := s.Stats()
		if err := p.Do(ctx, func(ctx context.Context, r redis.Cmdable) error {
			_, err := r.Pipelined(ctx, func(pipe redis.Pipeliner) error {
				pipe.Set(ctx, p.Key("a"), 1, 0)
				pipe.Get(ctx, p.Key("none"))
				pipe.Get(ctx, p.Key("a"))
				return nil
			})
			if !errors.Is(err, redis.Nil) {
				return err
			}
			return r.Get(ctx, p.Key("a")).Err()
		}); err != nil {
			t.Fatal(err)
		}
		err := p.Do(ctx, func(ctx context.Context, r redis.Cmdable) error { return r.LPush(ctx, p.Key("a"), 1).Err() })
		if err == nil || s.Unavailable() {
			t.Errorf("a command of the wrong kind: %v, unavailable %v", err, s.Unavailable())
		}
		p.Malformed("k")
		got := s.Stats()
		if n := got.Commands[redisstore.Session] - before.Commands[redisstore.Session]; n != 5 {
			t.Errorf("%d commands, want 5", n)
		}
		if got.Commands[redisstore.Permits] != 0 || got.Commands[redisstore.Watch] == 0 {
			t.Errorf("commands for something else: %v", got.Commands)
		}
		if got.Errors-before.Errors != 1 || got.Malformed != 1 || got.Unavailable || !got.UnavailableSince.IsZero() {
			t.Errorf("%+v, want one error and one malformed value", got)
		}
	})
}

func TestKeys(t *testing.T) {
	t.Parallel()
	p := open(t, redisstore.Config{}).Probe()
	if got, want := p.Key("a:b", "{c}", "%"), "cg:{probe}:a%3Ab:%7Bc%7D:%25"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got, want := p.Channel("health", "a"), "cg:health:a"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestOpenErrors(t *testing.T) {
	t.Parallel()
	if _, err := redisstore.Open(redisstore.Config{URL: "redis://:secret@h:x"}); err == nil ||
		strings.Contains(err.Error(), "secret") {
		t.Errorf("a wrong address: %v", err)
	}
}
