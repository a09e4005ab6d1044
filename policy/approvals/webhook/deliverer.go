package webhook

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/capgate/capgate/internal/lib/recovery"
	"github.com/capgate/capgate/policy/approvals"
)

const (
	// workers is how many requests a replica makes at once.
	workers = 8
	// spareLease is how long a lease is besides the request that it is for.
	spareLease = 20 * time.Second
)

// Approvals has them. Get's error is a *call.Refusal: NotFound where there is none.
type Approvals interface {
	Get(ctx context.Context, tenant, id string) (approvals.Approval, error)
}

// Config is what is told, and to whom. It may change while a Deliverer runs.
type Config struct {
	URL      string           // see CheckURL
	Secrets  [][]byte         // see ParseSecrets; at least one
	Kinds    []approvals.Kind // of events that are told; default WasAsked alone
	Timeout  time.Duration    // of one request; default 10 s
	Attempts int              // requests for one event, at most; default 10

	Proxy func(*http.Request) (*url.URL, error) // nil: none
	TLS   *tls.Config                           // of https; nil: the system's authorities
}

func (c *Config) setDefaults() error {
	if c.Timeout == 0 {
		c.Timeout = 10 * time.Second
	}
	if c.Attempts == 0 {
		c.Attempts = 10
	}
	if len(c.Kinds) == 0 {
		c.Kinds = []approvals.Kind{approvals.EventCreated}
	}
	if len(c.Secrets) == 0 {
		return errors.New("a webhook needs a secret")
	}
	return CheckURL(c.URL)
}

// Options of a Deliverer. The zero value is usable.
type Options struct {
	First   time.Duration // the longest wait after a first attempt; default 1 s, twice as long after each
	Longest time.Duration // the longest of all, also if a receiver asks for more; default 10 min
	Poll    time.Duration // how often to look for what no notice told of; default 2 s
	Outbox  int           // events that wait at once, of all tenants; default 10,000
	Dead    int           // dead letters that are kept; default 1,000

	Tenants []string     // that are looked at from the start; others when something happens
	Log     *slog.Logger // default: none
	Now     func() time.Time
}

func (o *Options) setDefaults() {
	for d, standard := range map[*time.Duration]time.Duration{&o.First: time.Second, &o.Longest: 10 * time.Minute, &o.Poll: 2 * time.Second} {
		if *d == 0 {
			*d = standard
		}
	}
	for n, standard := range map[*int]int{&o.Outbox: 10_000, &o.Dead: 1000} {
		if *n == 0 {
			*n = standard
		}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
}

// Deliverer is one replica's part in telling. It is safe for concurrent use.
type Deliverer struct {
	store     Store
	approvals Approvals
	render    Render
	opts      Options
	endpoint  atomic.Pointer[endpoint]
	news      *news
	counted   counters
	full      atomic.Bool // it is logged that the outbox is
	failing   atomic.Bool // it is logged that the receiver takes nothing
}

// New fails for a Config that cannot work.
func New(store Store, of Approvals, render Render, c Config, o Options) (*Deliverer, error) {
	o.setDefaults()
	d := &Deliverer{store: store, approvals: of, render: render, opts: o, news: newNews(o.Tenants)}
	return d, d.Set(c)
}

// Set changes what is told and to whom, from the next request on.
func (d *Deliverer) Set(c Config) error {
	if err := c.setDefaults(); err != nil {
		return err
	}
	if before := d.endpoint.Swap(newEndpoint(c)); before != nil {
		before.close()
	}
	return nil
}

// Run delivers until ctx ends. What is then under way is broken off, and left to others.
func (d *Deliverer) Run(ctx context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	defer func() { d.endpoint.Load().close() }()
	running.Go(recovery.Loop(ctx, "webhook feed", func() { d.store.Follow(ctx, d.heard, d.news.ofAll) }))
	work, free := make(chan Entry), make(chan struct{}, workers)
	for range workers {
		free <- struct{}{}
		running.Go(func() {
			for e := range work {
				recovery.Round("webhook", func() { d.deliver(ctx, &e) })
				free <- struct{}{}
			}
		})
	}
	defer close(work)
	held := 0 // places that this loop has taken from free
	for ctx.Err() == nil {
		d.gather(ctx)
		for held < workers && len(free) > 0 {
			<-free
			held++
		}
		again := d.opts.Poll*3/4 + rand.N(d.opts.Poll/4) // replicas need not all come at once
		var freed <-chan struct{}                        // is waited for where all are busy
		if held > 0 {
			entries, next := d.claim(ctx, held)
			for i := range entries {
				work <- entries[i] // there is a worker for each
			}
			held -= len(entries)
			again = min(again, next)
		}
		if held == 0 {
			again, freed = d.opts.Poll, free
		}
		if d.wait(ctx, again, freed) {
			held++
		}
	}
}

// wait waits until there may be something to do. It is true when it has taken a place from freed.
func (d *Deliverer) wait(ctx context.Context, most time.Duration, freed <-chan struct{}) bool {
	t := time.NewTimer(most)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-d.news.wake:
	case <-t.C:
	case <-freed:
		return true
	}
	return false
}

// claim takes what is due, and says when to come again.
func (d *Deliverer) claim(ctx context.Context, most int) ([]Entry, time.Duration) {
	entries, next, sizes, err := d.store.Claim(ctx, most, d.endpoint.Load().Timeout+spareLease)
	if err != nil {
		return nil, d.opts.Poll
	}
	d.counted.queued.Store(int64(sizes.Queued))
	d.counted.letters.Store(int64(sizes.Dead))
	if next == 0 {
		next = d.opts.Poll
	}
	return entries, next
}
