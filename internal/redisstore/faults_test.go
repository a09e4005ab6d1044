package redisstore_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/capgate/capgate/internal/redisstore"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/redistest"
)

// impatient is the configuration of tests of faults, with short timeouts.
func impatient(url string) redisstore.Config {
	return redisstore.Config{URL: url, Timeout: time.Second, Dial: time.Second}
}

// A command to which Redis does not respond ends with an error. Later ones fail at once and are not sent. When
// Redis responds again, everything works as before, without intervention.
func TestAway(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ fault, heal func(*redistest.Server) }{
		"killed":     {(*redistest.Server).Kill, (*redistest.Server).Restart},
		"frozen":     {(*redistest.Server).Freeze, (*redistest.Server).Thaw},
		"black hole": {func(s *redistest.Server) { s.BlackHole() }, func(s *redistest.Server) { s.Heal() }},
		"slow":       {func(s *redistest.Server) { s.Delay(2 * time.Second) }, func(s *redistest.Server) { s.Heal() }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			server := redistest.Start(t)
			s := open(t, impatient(server.URL()))
			returned := make(chan struct{}, 100)
			s.OnReconnect(func() { returned <- struct{}{} })
			p := s.Probe()
			check.Holds(t, "a first command", func() bool { return p.Set(ctx, p.Key("a"), "1") == nil })

			test.fault(server)
			// An earlier probe may still be answered, so that Redis seems available once.
			check.Holds(t, "commands to fail at once", func() bool {
				before := s.Stats()
				for range 100 {
					switch err := p.Set(ctx, p.Key("a"), "2"); {
					case err == nil:
						t.Fatal("a command succeeded without Redis")
					case !errors.Is(err, redisstore.ErrUnavailable):
						return false
					}
				}
				after := s.Stats()
				return after.Commands[redisstore.Session] == before.Commands[redisstore.Session] &&
					after.Errors-before.Errors >= 100 && after.Unavailable && !after.UnavailableSince.IsZero()
			})

			for len(returned) > 0 {
				check.Received(t, returned, "Redis to come back")
			}
			test.heal(server)
			check.Received(t, returned, "Redis to come back")
			check.Holds(t, "a command to succeed", func() bool { return p.Set(ctx, p.Key("a"), "4") == nil })
		})
	}
}

// TestCallersDeadlines: if a caller's deadline ends before Redis responds, only the caller's command fails.
func TestCallersDeadlines(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := open(t, redisstore.Config{URL: server.URL(), Timeout: patience, Dial: patience})
	p := s.Probe()
	check.Must(t, p.Set(t.Context(), p.Key("a"), "1"))
	server.Delay(100 * time.Millisecond)
	for range 5 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		if err := p.Set(ctx, p.Key("a"), "2"); !errors.Is(err, context.DeadlineExceeded) &&
			!errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("with a deadline of a millisecond: %v", err)
		}
		cancel()
		if s.Unavailable() {
			t.Fatal("Redis counts as unavailable because of a caller's deadline")
		}
	}
	check.Must(t, p.Set(t.Context(), p.Key("a"), "3"))
}

// Open succeeds without a Redis. The log has one line about it, without the password.
func TestOpenWithoutRedis(t *testing.T) {
	t.Parallel()
	for name, url := range map[string]string{
		"single": "redis://u:hush@127.0.0.1:1", "sentinel": "redis+sentinel://u:hush@127.0.0.1:1,127.0.0.1:2/m",
		"cluster": "redis+cluster://u:hush@127.0.0.1:1,127.0.0.1:2",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			log := &lines{}
			cfg := impatient(url)
			cfg.Log = slog.New(slog.NewTextHandler(log, nil))
			s := open(t, cfg)
			if !s.Unavailable() {
				t.Error("not unavailable")
			}
			if got := log.String(); strings.Count(got, "redis is unavailable") != 1 || strings.Contains(got, "hush") {
				t.Errorf("want one line, without the password:\n%s", got)
			}
		})
	}
}

// With a wrong password Redis counts as unavailable; the password is in no log and no error.
func TestWrongPassword(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	server.Do("ACL", "SETUSER", "capgate", "on", ">right", "~cg:*", "&cg:*", "+@all")
	log := &lines{}
	cfg := impatient("redis://capgate:hush@" + server.Addr)
	cfg.Log = slog.New(slog.NewTextHandler(log, nil))
	s := open(t, cfg)
	err := s.Probe().Set(t.Context(), "cg:a", "1")
	if err == nil || !s.Unavailable() || strings.Contains(log.String()+err.Error(), "hush") {
		t.Errorf("%v, unavailable %v, log:\n%s", err, s.Unavailable(), log)
	}
	server.Do("ACL", "SETUSER", "capgate", ">hush")
	check.Holds(t, "the password to be right", func() bool {
		return s.Probe().Set(t.Context(), s.Probe().Key("a"), "1") == nil
	})

}

// A full Redis is not unavailable: it rejects writes, and reads succeed.
func TestFull(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	server := redistest.Start(t)
	s := open(t, redisstore.Config{URL: server.URL()})
	p := s.Probe()
	check.Must(t, p.Set(ctx, p.Key("a"), "1"))
	server.Fill()
	if err := p.Set(ctx, p.Key("a"), "2"); err == nil {
		t.Error("a full Redis took a write")
	}
	if _, err := p.Run(ctx, `return redis.call('SET', KEYS[1], 1)`, []string{p.Key("a")}).Result(); err == nil {
		t.Error("a full Redis took a script's write")
	}
	if got, err := p.Get(ctx, p.Key("a")); err != nil || got != "1" || s.Unavailable() {
		t.Errorf("reading from a full Redis: %q, %v, unavailable %v", got, err, s.Unavailable())
	}
	server.Relieve()
	if err := p.Set(ctx, p.Key("a"), "3"); err != nil {
		t.Error(err)
	}
}

// A subscription survives its connection, and reports each time that its subject must be read again.
func TestSubscriptionComesBack(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]func(*redistest.Server){
		"cut":       func(s *redistest.Server) { s.Cut() },
		"restarted": (*redistest.Server).Restart,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			server := redistest.Start(t)
			p := open(t, redisstore.Config{URL: server.URL()}).Probe()
			connected, messages := make(chan struct{}, 100), make(chan string, 100)
			var subscribing sync.WaitGroup
			defer check.Ended(t, &subscribing, "the subscription to end")
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			subscribing.Go(func() {
				p.Subscribe(ctx, p.Channel("c"), func(m string) { messages <- m }, func() { connected <- struct{}{} })
			})
			check.Received(t, connected, "the subscription")
			fault(server)
			check.Received(t, connected, "the second subscription")
			check.Holds(t, "a message to be sent",
				func() bool { return p.Publish(ctx, p.Channel("c"), "hello") == nil })
			check.Received(t, messages, "a message")
		})
	}
}

// After a failover the data is there, and writes succeed.
func TestFailover(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	sentinel := redistest.StartSentinel(t)
	s := open(t, redisstore.Config{URL: sentinel.URL()})
	p := s.Probe()
	check.Must(t, p.Set(ctx, p.Key("a"), "1"))
	check.Until(t, "the replica to have it", func() (bool, string) {
		n, err := p.Wait(ctx, 1)
		return err == nil && n == 1, fmt.Sprint(n, err)
	})

	sentinel.Failover()
	check.Holds(t, "a write to the new master", func() bool { return p.Set(ctx, p.Key("b"), "1") == nil })
	if got, err := p.Get(ctx, p.Key("a")); err != nil || got != "1" {
		t.Errorf("what was written before: %q, %v", got, err)
	}
}

// acl creates the user that the README recommends.
//
//nolint:gochecknoglobals // a constant
var acl = []any{"ACL", "SETUSER", "capgate", "on", ">p@ss", "~cg:*", "&cg:*", "+@all", "-@dangerous", "+cluster|slots"}

func TestACL(t *testing.T) {
	t.Parallel()
	server, cluster := redistest.Start(t), redistest.StartCluster(t)
	server.Do(acl...)
	cluster.Do(t, acl...)
	for name, url := range map[string]string{"server": server.URL(), "cluster": cluster.URL()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			p := open(t, patient(redisstore.Config{URL: strings.Replace(url, "://", "://capgate:p%40ss@", 1)})).Probe()
			if err := p.Set(ctx, p.Key("a"), "1"); err != nil {
				t.Error(err)
			}
			if _, err := p.Run(ctx, `redis.call('TIME') return redis.call('GET', KEYS[1])`,
				[]string{p.Key("a")}).Result(); err != nil {
				t.Error(err)
			}
			if err := p.Publish(ctx, p.Channel("c"), "m"); err != nil {
				t.Error(err)
			}
			if err := p.Set(ctx, "other", "1"); err == nil {
				t.Error("a key without the prefix was written")
			}
		})
	}
}

func TestTLS(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	proxy, authority := server.TLS()
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(authority)
	cfg := redisstore.Config{URL: "rediss://" + proxy.Addr, TLS: &tls.Config{RootCAs: pool}}
	p := open(t, cfg).Probe()
	if err := p.Set(t.Context(), p.Key("a"), "1"); err != nil {
		t.Error(err)
	}
	other := cfg
	other.TLS = nil
	s := open(t, other)
	if !s.Unavailable() {
		t.Error("an untrusted certificate was accepted")
	}
	s.Reload(cfg)
	check.Holds(t, "Redis to answer", func() bool { return !s.Unavailable() })
}

// TestReloadOfThePassword: new connections use the new password.
func TestReloadOfThePassword(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := open(t, redisstore.Config{URL: server.URL()})
	server.Do("CONFIG", "SET", "requirepass", "secret")
	server.Do("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
	check.Holds(t, "Redis to refuse", s.Unavailable)
	s.Reload(redisstore.Config{URL: server.URL(), Password: "secret"})
	check.Holds(t, "Redis to answer", func() bool { return !s.Unavailable() })
}

// lines is a log.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
