package policy_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/changefeed"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/policy"
)

// feed is a policy.Feed controlled by the test.
type feed struct {
	mu          sync.Mutex
	revision    policy.Revision
	marked      []string // epochs marked as lost
	unavailable bool
	told        func(uint64, policy.Change)
	connected   func()
}

func (f *feed) Watch(ctx context.Context, told func(uint64, policy.Change), connected func()) {
	f.mu.Lock()
	f.told, f.connected = told, connected
	f.mu.Unlock()
	<-ctx.Done()
}

func (f *feed) Revision(context.Context) (policy.Revision, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.unavailable {
		return policy.Revision{}, errUnavailable
	}
	return f.revision, nil
}

func (f *feed) MarkLost(_ context.Context, epoch string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.revision.Lost = epoch
	f.marked = append(f.marked, epoch)
	return nil
}

// at returns the revision of a store.
func at(epoch string, version uint64, lost string, accepted ...string) policy.Revision {
	at := changefeed.Position{Epoch: epoch, Version: version}
	return policy.Revision{Position: at, Lost: lost, Accepted: accepted}
}

// change sets a rule, and publishes it unless the message is to be lost.
func (f *feed) change(tell bool, c policy.Change) {
	f.mu.Lock()
	f.revision.Version++
	version := f.revision.Version
	f.mu.Unlock()
	if tell {
		f.told(version, c)
	}
}

func (f *feed) set(version uint64, unavailable bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.revision.Version, f.unavailable = version, unavailable
}

// become replaces the stored revision.
func (f *feed) become(r policy.Revision) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.revision = r
}

// following runs a test with a decider that follows a feed. A rule allows aCall, and the decision is cached.
func following(t *testing.T, test func(*testing.T, *policy.Decider, *memory, *feed), from ...policy.Revision) {
	t.Helper()
	check.Bubble(t, func(t *testing.T) {
		store, news := &memory{}, &feed{revision: at("first", 7, "")}
		if len(from) > 0 {
			news.revision = from[0]
		}
		store.set("acme", tenantAllows, call.Allow)
		d, err := policy.New(policy.Options{Store: store, TTL: time.Hour, MaxStale: 10 * time.Minute})
		check.Must(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { d.Watch(ctx, news) })
		synctest.Wait()
		_, _ = both(t, d, &aCall)
		test(t, d, store, news)
		cancel()
		running.Wait()
	})
}

// elapse advances the time in a bubble of synctest.
func elapse(d time.Duration) { <-time.After(d) }

func known(d *policy.Decider) bool {
	_, ok := d.Decide(&aCall)
	return ok
}

func TestAChangeIsFollowedAtOnce(t *testing.T) {
	t.Parallel()
	following(t, func(t *testing.T, d *policy.Decider, _ *memory, news *feed) {
		news.change(true, policy.Change{Tenant: "other", Name: tenantAllows})
		if !known(d) {
			t.Error("another tenant's change is taken for ours")
		}
		news.change(true, policy.Change{Tenant: "acme", Name: tenantAllows})
		if known(d) {
			t.Error("still decided by what was")
		}
	})
}

// TestLostRules: Redis restarts without data. For a time, cached decisions are used and all other calls are rejected.
// The rules do not count as deleted, neither later nor after a change, until an operator accepts the loss.
func TestLostRules(t *testing.T) {
	t.Parallel()
	other := aCall
	other.Tool = "alerts"
	following(t, func(t *testing.T, d *policy.Decider, store *memory, news *feed) {
		elapse(time.Second + time.Millisecond) // between two reads of the version
		store.remove("acme", tenantAllows)
		news.become(policy.Revision{})
		if got, refusal := d.Fetch(t.Context(), &other); refusal != nil || got.Verdict != call.Block {
			t.Errorf("before it is noticed: %+v, %v", got, refusal)
		}
		elapse(2 * time.Second)
		if _, refusal := d.Fetch(t.Context(), &other); !known(d) || refusal == nil || !d.Stats().Lost {
			t.Errorf("just lost: known %v, unknown %v, %+v", known(d), refusal, d.Stats())
		}
		elapse(5 * time.Minute)
		if _, refusal := d.Fetch(t.Context(), &other); !known(d) || refusal == nil {
			t.Errorf("lost: known %v, unknown %v", known(d), refusal)
		}
		news.become(at("second", 1, "first")) // another replica sets a rule
		elapse(24 * time.Hour)
		if _, refusal := d.Fetch(t.Context(), &aCall); known(d) || refusal == nil ||
			refusal.Reason != "POLICY_UNKNOWN" || !d.Stats().Lost {
			t.Errorf("a day later: known %v, %v, %+v", known(d), refusal, d.Stats())
		}
		news.become(at("second", 2, "", "first"))
		elapse(time.Second)
		if got, refusal := both(t, d, &aCall); refusal != nil || got.Verdict != call.Block || d.Stats().Lost {
			t.Errorf("accepted: %+v, %v, %+v", got, refusal, d.Stats())
		}
		if len(news.marked) != 1 || news.marked[0] != "first" {
			t.Errorf("marked as lost: %q", news.marked)
		}
	})
}

// TestAReplicaThatStartsAfterALoss: a replica that starts after a loss finds its mark, and decides nothing.
func TestAReplicaThatStartsAfterALoss(t *testing.T) {
	t.Parallel()
	for name, now := range map[string]policy.Revision{
		"empty":         at("", 0, "before"),
		"another rule":  at("after", 3, "before"),
		"of an old one": at("", 0, "-"),
	} {
		check.Bubble(t, func(t *testing.T) {
			var told []bool
			d, err := policy.New(policy.Options{Store: &memory{}, Lost: func(lost bool) { told = append(told, lost) }})
			check.Must(t, err)
			ctx, cancel := context.WithCancel(t.Context())
			var running sync.WaitGroup
			news := &feed{revision: now}
			running.Go(func() { d.Watch(ctx, news) })
			synctest.Wait()
			if _, refusal := d.Fetch(t.Context(), &aCall); refusal == nil || d.Stats().Read {
				t.Errorf("%s: %v, read %v", name, refusal, d.Stats().Read)
			}
			restored := at(now.Lost, 9, now.Lost)
			if now.Lost == "-" {
				restored.Epoch = ""
			}
			news.become(restored)
			elapse(time.Second)
			if _, refusal := d.Fetch(t.Context(), &aCall); refusal != nil || !d.Stats().Read || len(news.marked) != 0 {
				t.Errorf("%s, restored: %v, read %v, marked %q", name, refusal, d.Stats().Read, news.marked)
			}
			if len(told) != 2 || !told[0] || told[1] {
				t.Errorf("%s: told %v", name, told)
			}
			cancel()
			running.Wait()
		})
	}
}

// TestFirstEpoch: rules stored without an epoch get one with their next change, which does not count as a loss. An
// emptied store with a first change does.
func TestFirstEpoch(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		then policy.Revision
		lost bool
	}{
		"next change":            {at("first", 8, ""), false},
		"emptied":                {policy.Revision{}, true},
		"emptied, then a change": {at("other", 1, ""), true},
	} {
		following(t, func(t *testing.T, d *policy.Decider, _ *memory, news *feed) {
			news.become(test.then)
			elapse(2 * time.Second)
			if d.Stats().Lost != test.lost {
				t.Errorf("%s: lost %v", name, d.Stats().Lost)
			}
		}, at("", 7, ""))
	}
}

// TestLostRulesWarmNothing: a replica that warms its cache from an emptied store does not cache decisions without
// rules.
func TestLostRulesWarmNothing(t *testing.T) {
	t.Parallel()
	other := aCall
	other.Tool = "alerts"
	following(t, func(t *testing.T, d *policy.Decider, _ *memory, news *feed) {
		news.become(policy.Revision{})
		elapse(2 * time.Second)
		if n, err := d.Warm(t.Context(), &remembered{keys: []policy.Key{keyOf(&other)}}); n != 0 || err == nil {
			t.Errorf("%d, %v", n, err)
		}
		if got, known := d.Decide(&other); known {
			t.Errorf("%+v", got)
		}
	})
}

// TestAFailoverTakesAChangeBack: a failover that loses the last change does not count as a loss of all rules, and no
// call is rejected.
func TestAFailoverTakesAChangeBack(t *testing.T) {
	t.Parallel()
	following(t, func(t *testing.T, d *policy.Decider, _ *memory, news *feed) {
		news.set(6, false)
		elapse(2 * time.Second)
		if known(d) {
			t.Error("what the change said is still decided by")
		}
		if got, refusal := both(t, d, &aCall); refusal != nil || got.Verdict != call.Allow {
			t.Errorf("%+v, %v", got, refusal)
		}
	})
}

// TestRestoredRules: the lost rules are restored.
func TestRestoredRules(t *testing.T) {
	t.Parallel()
	following(t, func(t *testing.T, d *policy.Decider, store *memory, news *feed) {
		elapse(time.Second)
		news.become(policy.Revision{})
		elapse(2 * time.Second)
		news.become(at("first", 7, ""))
		elapse(2 * time.Second)
		other := aCall
		other.User = "bob"
		if got, refusal := d.Fetch(t.Context(), &other); refusal != nil || got.Verdict != call.Allow || !known(d) ||
			d.Stats().Lost {
			t.Errorf("%+v, %v, %+v", got, refusal, d.Stats())
		}
		_ = store
	})
}
