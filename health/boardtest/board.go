// Package boardtest is a health.Roll and health.Board in memory, which can be made to
// fail as a store does: silent, slow, refusing, empty. It is for tests.
package boardtest

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/capgate/capgate/health"
)

// Board is a roll and a board in memory.
type Board struct {
	now func() time.Time

	mu        sync.Mutex
	epoch     int
	roll      map[string]beat
	pages     [health.Pages]page
	followers map[*follower]struct{}
	fault     Fault
	posts     int
	read      int
	reports   int
}

type beat struct {
	at     time.Time
	digest health.Digest
}

type page struct {
	version uint64
	votes   map[health.Key]*health.Vote
}

type follower struct {
	tell func(health.Notice)
	lost chan struct{}
}

// Fault is what is wrong with a Board.
type Fault struct {
	Err    error         // of every command, and every Follow
	Silent bool          // commands get no answer, followers hear nothing
	Delay  time.Duration // before each command is done
}

// New makes an empty Board that goes by a clock of its own.
func New(now func() time.Time) *Board {
	return &Board{now: now, roll: map[string]beat{}, followers: map[*follower]struct{}{}}
}

// Break makes f be what is wrong from now on. Followers lose the board if it fails.
func (b *Board) Break(f Fault) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.fault = f
	if f.Err != nil {
		b.drop()
	}
}

// Wipe restarts the board empty.
func (b *Board) Wipe() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.epoch++
	b.roll = map[string]beat{}
	b.pages = [health.Pages]page{}
	b.drop()
}

func (b *Board) drop() {
	for f := range b.followers {
		close(f.lost)
		delete(b.followers, f)
	}
}

// Reports returns how many commands have posted how many reports.
func (b *Board) Reports() (posts, reports int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.posts, b.reports
}

// EntriesRead returns how many entries of pages all have read together.
func (b *Board) EntriesRead() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.read
}

// Votes returns what is on the board about a backend.
func (b *Board) Votes(capability, addr string) (first, second *health.Vote) {
	b.mu.Lock()
	defer b.mu.Unlock()
	votes := b.pages[health.PageOf(capability)].votes
	k := health.Key{Capability: capability, Addr: addr}
	first = votes[k]
	k.Slot = health.Second
	return first, votes[k]
}

// enter waits as the fault says.
func (b *Board) enter(ctx context.Context) error {
	b.mu.Lock()
	f := b.fault
	b.mu.Unlock()
	if f.Silent {
		<-ctx.Done()
		return ctx.Err()
	}
	if f.Delay > 0 {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(f.Delay):
		}
	}
	return f.Err
}

// Beat implements health.Roll.
func (b *Board) Beat(ctx context.Context, in health.Beat) (health.Members, error) {
	if err := b.enter(ctx); err != nil {
		return health.Members{}, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.now()
	b.roll[in.Replica] = beat{at: now, digest: in.Digest}
	m := health.Members{Epoch: fmt.Sprint(b.epoch), Now: now.UnixMilli()}
	for id, beat := range b.roll {
		if age := now.Sub(beat.at); age <= in.Dead {
			m.Members = append(m.Members, health.Member{Replica: id, Age: age, Digest: beat.digest})
		} else {
			delete(b.roll, id)
		}
	}
	return m, nil
}

// Leave implements health.Roll.
func (b *Board) Leave(ctx context.Context, replica string) error {
	if err := b.enter(ctx); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.roll, replica)
	b.tell(health.Notice{Left: replica})
	return nil
}

// Post implements health.Board.
func (b *Board) Post(ctx context.Context, reports []health.Report) error {
	if err := b.enter(ctx); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.now()
	b.posts++
	b.reports += len(reports)
	changed, fresh := map[int][]health.Entry{}, map[int]bool{}
	for _, r := range reports {
		n := health.PageOf(r.Capability)
		p := &b.pages[n]
		if p.votes == nil {
			p.votes = map[health.Key]*health.Vote{}
			p.version, fresh[n] = uint64(now.UnixMicro()), true
		}
		e := health.Entry{Key: r.Key}
		if r.Vote == nil {
			delete(p.votes, r.Key)
		} else {
			v := *r.Vote
			v.Written, v.Since = now.UnixMilli(), now.Add(-r.Age).UnixMilli()
			p.votes[r.Key], e.Vote = &v, &v
		}
		changed[n] = append(changed[n], e)
	}
	for n, entries := range changed {
		b.pages[n].version++
		b.tell(health.Notice{Page: n, Version: b.pages[n].version, New: fresh[n], Entries: entries})
	}
	return nil
}

// tell tells all followers. The caller holds mu.
func (b *Board) tell(n health.Notice) {
	if b.fault.Silent {
		return
	}
	for f := range b.followers {
		f.tell(n)
	}
}

// Page implements health.Board.
func (b *Board) Page(ctx context.Context, n int, whole bool) (health.Page, error) {
	if err := b.enter(ctx); err != nil {
		return health.Page{}, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	p := &b.pages[n]
	got := health.Page{Version: p.version, Now: b.now().UnixMilli()}
	if whole {
		for k, v := range p.votes {
			got.Entries = append(got.Entries, health.Entry{Key: k, Vote: v})
		}
	}
	b.read += len(got.Entries)
	return got, nil
}

// subscribe gives up where enter would wait for ever.
func (b *Board) subscribe(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	return b.enter(ctx)
}

// Follow implements health.Board.
func (b *Board) Follow(ctx context.Context, tell func(health.Notice)) error {
	if err := b.subscribe(ctx); err != nil {
		return err
	}
	queue := make(chan health.Notice, 1<<16)
	f := &follower{tell: func(n health.Notice) { queue <- n }, lost: make(chan struct{})}
	f.tell(health.Notice{Fresh: true})
	b.mu.Lock()
	b.followers[f] = struct{}{}
	b.mu.Unlock()
	defer func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.followers, f)
	}()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-f.lost:
			return context.Canceled
		case n := <-queue:
			tell(n)
		}
	}
}
