package redisstore_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/capgate/capgate/internal/redisstore"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/redistest"
)

// starved is a connection of a process that lacks CPU: after responses have arrived, or before commands are
// written, it does not run until the deadline has passed.
type starved struct {
	net.Conn
	reads, writes *atomic.Bool
	arrived       []byte
	given         bool // the deadline was noticed before the reply
}

func (s *starved) Read(p []byte) (int, error) {
	if len(s.arrived) == 0 {
		n, err := s.Conn.Read(p)
		if err != nil || !s.reads.Load() {
			return n, err
		}
		s.arrived = append(s.arrived, p[:n]...)
	}
	if !s.given {
		s.given = true
		return 0, os.ErrDeadlineExceeded
	}
	n := copy(p, s.arrived)
	s.arrived, s.given = s.arrived[n:], false
	return n, nil
}

func (s *starved) SetWriteDeadline(t time.Time) error {
	if s.writes.Load() && !t.IsZero() {
		<-time.After(time.Until(t))
	}
	return s.Conn.SetWriteDeadline(t)
}

// TestRepliesThatWaitInTheProcess: a reply that has arrived is not late, and a command that was not sent in
// time is not Redis's fault.
func TestRepliesThatWaitInTheProcess(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	var reads, writes atomic.Bool
	log := &lines{}
	s := open(t, redisstore.Config{URL: server.URL(), Timeout: time.Second,
		Log: slog.New(slog.NewTextHandler(log, nil)), Dialer: func(ctx context.Context, network, addr string) (net.Conn,
			error) {
			conn, err := new(net.Dialer).DialContext(ctx, network, addr)
			return &starved{Conn: conn, reads: &reads, writes: &writes}, err
		}})
	p := s.Probe()
	check.Must(t, p.Set(t.Context(), p.Key("a"), "1"))
	reads.Store(true)
	for range 10 {
		if got, err := p.Get(t.Context(), p.Key("a")); err != nil || got != "1" {
			t.Fatalf("a reply that has arrived: %q, %v", got, err)
		}
	}
	reads.Store(false)
	writes.Store(true)
	if err := p.Set(t.Context(), p.Key("a"), "2"); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a command that is not sent in time: %v", err)
	}
	writes.Store(false)
	check.Must(t, p.Set(t.Context(), p.Key("a"), "3"))
	if s.Unavailable() || strings.Contains(log.String(), "unavailable") {
		t.Errorf("Redis counts as unavailable:\n%s", log)
	}
}

// TestTimeoutsOfABusyProcess: a timeout counts against Redis unless the process itself waited long meanwhile. Such
// timeouts count as well if there is no answer for long.
func TestTimeoutsOfABusyProcess(t *testing.T) {
	t.Parallel()
	const timeout = 100 * time.Millisecond
	for name, test := range map[string]struct {
		stalls time.Duration // in each command
		away   bool          // after one timeout
	}{
		"idle":        {0, true},
		"hardly busy": {timeout / 10, true},
		"busy":        {timeout / 4, false},
		"stopped":     {time.Minute, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			var sum atomic.Int64
			s := open(t, redisstore.Config{URL: server.URL(), Timeout: timeout,
				Jitter: func(d time.Duration) time.Duration {
					return d - 1
				}, Stalled: func() time.Duration {
					return time.Duration(sum.Add(int64(test.stalls)))
				}})
			p := s.Probe()
			check.Holds(t, "a first command", func() bool { return p.Set(t.Context(), p.Key("a"), "1") == nil })
			began := time.Now() // before a probe that gets no response
			server.BlackHole()
			if err := p.Set(t.Context(), p.Key("a"), "2"); err == nil {
				t.Fatal("a command succeeded without Redis")
			}
			if s.Unavailable() != test.away && (test.away || time.Since(began) < 8*timeout) {
				t.Errorf("after a timeout Redis counts as unavailable: %t", !test.away)
			}
			check.Holds(t, "Redis to count as unavailable", func() bool {
				_ = p.Set(t.Context(), p.Key("a"), "3") // times out
				return s.Unavailable()
			})
			if took := time.Since(began); !test.away && took < 8*timeout {
				t.Errorf("Redis counts as unavailable after %v", took)
			}
		})
	}
}

// TestTheEmbeddedRedisResponds: an embedded Redis is as slow as its process, so that a timeout does not make it
// unavailable.
func TestTheEmbeddedRedisResponds(t *testing.T) {
	t.Parallel()
	check.Bubble(t, func(t *testing.T) {
		s := open(t, redisstore.Config{Timeout: time.Second})
		p := s.Probe()
		if err := p.Do(t.Context(), func(ctx context.Context, r redis.Cmdable) error {
			return r.BLPop(ctx, time.Hour, p.Key("a")).Err()
		}); !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("a slow command: %v", err)
		}
		if err := p.Set(t.Context(), p.Key("b"), "1"); err != nil || s.Unavailable() {
			t.Errorf("after a slow command: %v", err)
		}
		s.Close()
	})
}
