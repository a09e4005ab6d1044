package redisstore

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/capgate/capgate/internal/lib/backoff"
	"github.com/capgate/capgate/internal/lib/broadcast"
	"github.com/capgate/capgate/internal/lib/signal"
)

// The breaker's probe intervals while Redis is unavailable. They start over when Redis was available for
// steady. An available Redis is probed every idle, so that its loss is known before a call needs it.
const (
	idle      = time.Second
	firstWait = 20 * time.Millisecond
	lastWait  = 2 * time.Second
	steady    = 10 * time.Second
)

// breaker is a circuit breaker: it fails commands while Redis does not answer, and probes it.
type breaker struct {
	log    *slog.Logger
	lost   string // what it logs
	found  string
	ping   func(context.Context) error
	random func(time.Duration) time.Duration // below its argument

	tripped chan struct{} // capacity one: run should probe

	mu          sync.Mutex
	unavailable bool
	since       time.Time        // of the last change
	lastUp      time.Duration    // time for which Redis was available before it failed
	changes     int              // number of state changes
	doubtful    atomic.Int64     // Unix time in nanoseconds of the first doubtful timeout since an answer; 0: none
	patience    time.Duration    // time for which a doubtful timeout counts
	back        broadcast.Signal // sent when Redis comes back
	returned    []func()
}

func newBreaker(cfg *Config, ping func(context.Context) error) *breaker {
	return &breaker{log: cfg.Log, lost: "redis is unavailable; serving cached data", found: "redis is back", ping: ping,
		random: cfg.Jitter, patience: maxDoubt * cfg.Timeout, tripped: make(chan struct{}, 1)}
}

// open reports whether commands fail without being sent.
func (b *breaker) open() bool {
	unavailable, _ := b.state()
	return unavailable
}

func (b *breaker) state() (unavailable bool, since time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.unavailable {
		return false, time.Time{}
	}
	return true, b.since
}

// epoch returns the value for trip. It is taken before the command is sent.
func (b *breaker) epoch() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.changes
}

// trip records that a command could not reach Redis. A command from before the last change is ignored.
func (b *breaker) trip(epoch int, why error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.unavailable || epoch != b.changes {
		return
	}
	b.change(true)
	b.log.Warn(b.lost, "because", inWords(why))
	signal.Wake(b.tripped)
}

// answered records an answer of Redis.
func (b *breaker) answered() {
	if b.doubtful.Load() != 0 {
		b.doubtful.Store(0)
	}
}

// doubt records a timeout that the process itself may have caused. Too many without an answer between them trip.
func (b *breaker) doubt(epoch int, why error) {
	now := time.Now().UnixNano()
	if b.doubtful.CompareAndSwap(0, now) {
		return
	}
	if first := b.doubtful.Load(); first != 0 && now-first >= int64(b.patience) {
		b.trip(epoch, why)
	}
}

// inWords says why Redis cannot be reached. Errors that are not of the connection are shown as they are.
func inWords(err error) string {
	var op *net.OpError
	var host *net.DNSError
	switch {
	case errors.As(err, &host):
		return "the host " + host.Name + " is not known; check redis in the configuration"
	case errors.Is(err, syscall.ECONNREFUSED) && errors.As(err, &op) && op.Addr != nil:
		return "nothing listens at " + op.Addr.String() + "; check redis in the configuration"
	}
	return err.Error()
}

func (b *breaker) change(unavailable bool) {
	now := time.Now()
	if unavailable {
		b.lastUp = now.Sub(b.since)
	}
	b.unavailable, b.since = unavailable, now
	b.changes++
	b.doubtful.Store(0)
}

// run probes Redis until ctx ends.
func (b *breaker) run(ctx context.Context) {
	wait := backoff.Backoff{First: firstWait, Max: lastWait}
	for b.watch(ctx) {
		if b.wasSteady() {
			wait.Reset()
		}
		for {
			if !b.pause(ctx, wait.Next()) {
				return
			}
			if b.ping(ctx) == nil {
				break
			}
		}
		b.comeBack()
	}
}

// watch returns when the breaker has tripped, or false when ctx has ended.
func (b *breaker) watch(ctx context.Context) bool {
	for !signal.Wait(ctx, b.tripped, b.jitter(idle)) {
		if ctx.Err() != nil {
			return false
		}
		epoch := b.epoch()
		b.judge(ctx, epoch, b.ping(ctx))
	}
	return true
}

// judge records the result of a ping.
func (b *breaker) judge(ctx context.Context, epoch int, err error) {
	var delayed *delayedError
	switch {
	case ctx.Err() != nil:
	case err == nil:
		b.answered()
	case errors.As(err, &delayed):
		b.doubt(epoch, err)
	default:
		b.trip(epoch, err)
	}
}

// wasSteady reports whether Redis was available for long before it failed.
func (b *breaker) wasSteady() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.lastUp >= steady
}

func (b *breaker) comeBack() {
	b.mu.Lock()
	gone := time.Since(b.since)
	b.change(false)
	b.mu.Unlock()
	b.log.Info(b.found, "after", gone.Round(time.Millisecond).String())
	b.announce()
}

// announce notifies the readers of data that Redis, or a part of it, may have lost meanwhile.
func (b *breaker) announce() {
	b.mu.Lock()
	b.back.Send()
	callbacks := b.returned
	b.mu.Unlock()
	for _, f := range callbacks {
		f()
	}
}

func (b *breaker) onReconnect(f func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.returned = append(b.returned[:len(b.returned):len(b.returned)], f)
}

// next returns a channel that is closed when Redis comes back.
func (b *breaker) next() <-chan struct{} { return b.back.Next() }

// jitter returns d, plus or minus a quarter.
func (b *breaker) jitter(d time.Duration) time.Duration { return backoff.JitterFrom(b.random, d, 0.25) }

// pause waits for about d. It returns false when ctx has ended.
func (b *breaker) pause(ctx context.Context, d time.Duration) bool {
	return backoff.Sleep(ctx, b.jitter(d))
}
