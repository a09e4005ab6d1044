package daily

import (
	"context"
	"maps"
	"time"

	"github.com/capgate/capgate/internal/lib/backoff"
	"github.com/capgate/capgate/internal/lib/recovery"
	"github.com/capgate/capgate/internal/ratelimit"
	"github.com/capgate/capgate/internal/tenant"
)

const (
	publish = 10 * time.Second
	// lastTime bounds the last publication, for all tenants together.
	lastTime = 5 * time.Second
	// maxWaiting bounds the tenants whose uses wait for a store that does not respond.
	maxWaiting = 10_000
)

// Limits is the part of a ratelimit.Limiter that a Log uses.
type Limits interface {
	Peaks(visit func(of ratelimit.Owner, peaks []ratelimit.Peak))
	LimitsOf(s *tenant.Settings) (ratelimit.Owner, []ratelimit.LimitUsage)
}

// Config has the parts of a Log. Limits and Store are required.
type Config struct {
	Limits Limits
	Store  Store
	// Notice is called when a tenant has used 80% of a quota: once for a limit and its period, at one of the replicas.
	// It is optional.
	Notice func(tenant string, u *Use)
	Now    func() time.Time // default time.Now
}

// Log records the use of limits. Its methods may be called from any goroutine, except Publish and Run.
type Log struct {
	cfg     Config
	sent    map[ratelimit.Owner]record // by the last Publish, to send only what has changed
	waiting map[ratelimit.Owner]record // not accepted by the store yet
}

// record has the uses of a tenant's limits. One of a later day takes the place of an earlier one.
type record map[limit]Use

// New returns a Log. Run publishes the uses.
func New(cfg Config) *Log {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Log{cfg: cfg, waiting: map[ratelimit.Owner]record{}}
}

// Run publishes the uses until ctx ends, and then once more.
func (l *Log) Run(ctx context.Context) {
	for backoff.Sleep(ctx, publish) {
		recovery.Round("use of limits", func() { _ = l.Publish(ctx) }) // what failed is published later
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastTime)
	defer cancel()
	_ = l.Publish(last) // an error means that the last seconds are missing
}

// Publish sends uses that have grown to the store. What cannot be sent is sent with the next Publish.
func (l *Log) Publish(ctx context.Context) error {
	sent := l.sent
	l.sent = map[ratelimit.Owner]record{}
	l.cfg.Limits.Peaks(func(of ratelimit.Owner, peaks []ratelimit.Peak) {
		l.add(of, peaks, sent[of])
	})
	for of, r := range l.waiting {
		if err := l.send(ctx, of, r); err != nil {
			return err
		}
		delete(l.waiting, of)
	}
	return nil
}

// add adds peaks to the uses that wait, unless they were sent before.
func (l *Log) add(of ratelimit.Owner, peaks []ratelimit.Peak, sent record) {
	r, known := l.waiting[of]
	if !known && len(l.waiting) >= maxWaiting {
		return
	}
	if r == nil {
		r = record{}
	}
	kept := maps.Clone(sent)
	if kept == nil {
		kept = record{}
	}
	for i := range peaks {
		u := useOf(&peaks[i])
		if had, ok := kept[u.of()]; ok && had.Day == u.Day && had.Most == u.Most && had.Used >= u.Used {
			continue
		}
		if had, ok := r[u.of()]; ok && had.Day == u.Day {
			u.Used = max(u.Used, had.Used)
		}
		r[u.of()], kept[u.of()] = u, u
	}
	if l.sent[of] = kept; len(r) > 0 {
		l.waiting[of] = r
	}
}

// send sends the uses of one tenant, and notifies of those that are near their limit for the first time.
func (l *Log) send(ctx context.Context, of ratelimit.Owner, r record) error {
	uses := make([]Use, 0, len(r))
	for _, u := range r {
		uses = append(uses, u)
	}
	first, err := l.cfg.Store.Raise(ctx, of, uses)
	if err != nil || l.cfg.Notice == nil {
		return err
	}
	for _, i := range first {
		l.cfg.Notice(of.ID, &uses[i])
	}
	return nil
}
