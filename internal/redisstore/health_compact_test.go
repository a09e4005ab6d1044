package redisstore_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/capgate/capgate/health"
	"github.com/capgate/capgate/internal/redisstore"
	"github.com/capgate/capgate/internal/testkit/check"
)

// manyReplicas is the least number of replicas for which notices are compact.
const manyReplicas = 100

// watchMessages returns the notices as Redis sends them.
func watchMessages(t *testing.T, b *redisstore.HealthStore) <-chan string {
	t.Helper()
	messages, ready := make(chan string, 100), make(chan struct{})
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		b.Messages(ctx, func(message string) { messages <- message }, func() { close(ready) })
	}()
	t.Cleanup(func() {
		stop()
		check.Received(t, done, "the end of the subscription")
	})
	check.Received(t, ready, "the subscription")
	return messages
}

// deaths returns observations of n backends in one shard that do not answer, as two replicas of many publish them.
func deaths(n int) []health.Report {
	var reports []health.Report
	for i := 0; len(reports) < n; i++ {
		k := health.Key{Capability: fmt.Sprintf("calendar-search-%d", i/3), Addr: fmt.Sprintf("10.244.%d.%d:50051",
			i*7919>>8&255, i*7919&255), Role: health.Role(i & 1)}
		if health.ShardOf(k.Capability) != 7 {
			continue
		}
		reason := "connection refused: nothing listens on this port"
		if i%5 == 0 {
			reason = "no answer within the timeout"
		}
		reports = append(reports, health.Report{Key: k, Age: time.Duration(i*37%3000) * time.Millisecond,
			Observation: &health.Observation{State: health.Down, Refused: i%5 > 0, Dialect: 2,
				Episode: 1<<32 - 1 - uint32(i)*7919, By: fmt.Sprintf("capgate-%d", i*7919%1000), Reason: reason}})
	}
	return reports
}

// TestHealthNoticesAreCompact: in a mass failure, a change takes few bytes for each follower, and arrives as the shard
// has it.
func TestHealthNoticesAreCompact(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		const changes = 128
		b := open().Health()
		b.SetLive(manyReplicas)
		messages := watchMessages(t, b)
		publish(t, b, deaths(changes))
		message := check.Received(t, messages, "the notice")
		if each := len(message) / changes; each > 45 {
			t.Errorf("%d bytes for each change: %.600s", each, message)
		}
		arriveAsStored(t, b, 7, message)
	})
}

// TestHealthNoticesOfAnyText: a notice has what the shard has, whatever the names and reasons are, and whether it is
// compact or plain.
func TestHealthNoticesOfAnyText(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		b := open().Health()
		b.SetLive(manyReplicas)
		messages := watchMessages(t, b)
		long := strings.Repeat("long", 50)
		var reports []health.Report
		for i, capability := range []string{"c", "c", "cc", "c.c", "☔", long + "1" + long,
			long + "22" + long, long} {
			for j, addr := range []string{"a:1", "aa:1", "a:11", "☔:1", long + ":1", long + "." + long + ":1"} {
				reports = append(reports, health.Report{
					Key: health.Key{Capability: capability, Addr: addr, Role: health.Role(j & 1)},
					Age: time.Duration(i) * 1000 * time.Hour,
					Observation: &health.Observation{State: health.Up + health.State(i&1), Refused: j == 3,
						Dialect: uint8(i % 4), Episode: uint32(i * j), By: strings.Repeat(addr[:3], i%3),
						Reason: strings.Repeat(" "+capability, j)}})
			}
		}
		for _, most := range []int{1, 8, 9, len(reports)} {
			publish(t, b, reports[:most])
			for shards := changedShards(reports[:most]); len(shards) > 0; {
				message := check.Received(t, messages, "the notice")
				delete(shards, arriveAsStored(t, b, -1, message))
			}
		}
	})
}

func changedShards(reports []health.Report) map[int]bool {
	shards := map[int]bool{}
	for _, r := range reports {
		shards[health.ShardOf(r.Capability)] = true
	}
	return shards
}

// arriveAsStored requires that the entries of a notice are those of its shard, which it returns. n is the shard, or -1
// if it may be any.
func arriveAsStored(t *testing.T, b *redisstore.HealthStore, n int, message string) int {
	t.Helper()
	e, ok := redisstore.DecodeEvent(message)
	if !ok || n >= 0 && e.Shard != n {
		t.Fatalf("%.600q: %+v, %v", message, e, ok)
	}
	stored, err := b.Shard(t.Context(), e.Shard, true)
	check.Must(t, err)
	all := map[health.Key]health.Observation{}
	for _, entry := range stored.Entries {
		all[entry.Key] = *entry.Observation
	}
	got := map[health.Key]health.Observation{}
	for _, entry := range e.Entries {
		got[entry.Key] = *entry.Observation
	}
	if len(got) == 0 {
		t.Errorf("%.600q has no entries", message)
	}
	for k := range got {
		if all[k] != got[k] {
			t.Errorf("%+v: the shard has %+v, and the notice %+v", k, all[k], got[k])
		}
	}
	return e.Shard
}

// TestHealthNoticesOfAnEarlierVersion: a replica of an earlier version cannot read a compact notice, and does not take
// it for another one. It can read one of a few changes, which names the version of the notice that it has missed.
// Deletions, and observations in an unknown form, are sent in plain notices.
func TestHealthNoticesOfAnEarlierVersion(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		s := open()
		b := s.Health()
		b.SetLive(manyReplicas)
		messages := watchMessages(t, b)
		next := func(reports []health.Report) (health.Event, bool) {
			t.Helper()
			publish(t, b, reports)
			message := check.Received(t, messages, "the notice")
			e, ok := redisstore.DecodeEvent(message)
			if !ok || len(e.Entries) != len(reports) {
				t.Errorf("%.600q: %+v, %v", message, e, ok)
			}
			return e, earlierVersionReads(message)
		}
		many := deaths(20)
		first, reads := next(many[:8])
		if !reads {
			t.Error("8 changes cannot be read")
		}
		missed, reads := next(many[:9])
		if reads || missed.Previous != first.Version {
			t.Errorf("9 changes can be read, or have another version before: %+v", missed)
		}
		if later, reads := next(many[:1]); !reads || later.Previous != missed.Version {
			t.Errorf("a single change cannot be read, or hides what was missed: %+v", later)
		}
		b.SetLive(manyReplicas - 1)
		if _, reads := next(many); !reads {
			t.Error("many changes cannot be read by few replicas")
		}
		b.SetLive(manyReplicas)
		deleted := append([]health.Report{{Key: many[0].Key}}, many[1:]...)
		e, reads := next(deleted)
		gone := slices.IndexFunc(e.Entries, func(entry health.Entry) bool { return entry.Observation == nil })
		if !reads || gone < 0 || e.Entries[gone].Key != many[0].Key {
			t.Errorf("with a deleted observation: read %v, %+v", reads, e)
		}
		check.Must(t, s.Probe().Do(t.Context(), func(ctx context.Context, r redis.Cmdable) error {
			check.Must(t, r.HSet(ctx, b.ShardKey(7), "c a:1 0", "of a later version").Err())
			return r.SAdd(ctx, b.WaitingKey(7), "c a:1 0").Err()
		}))
		publish(t, b, many)
		if message := check.Received(t, messages, "the notice"); !earlierVersionReadsHead(message) {
			t.Errorf("with an observation of another form: %.200q", message)
		}
	})
}

// earlierVersionReads reports whether a replica of an earlier version can read a notice.
func earlierVersionReads(message string) bool {
	return earlierVersionReadsHead(message) && strings.Count(message, "\n")%2 == 0
}

func earlierVersionReadsHead(message string) bool {
	head, _, _ := strings.Cut(message, "\n")
	return len(strings.Split(head, " ")) == 4 && strings.HasPrefix(head, "page ")
}

// TestMalformedCompactNotices: a compact notice that another one could have been meant by is rejected.
func TestMalformedCompactNotices(t *testing.T) {
	t.Parallel()
	const head = "page 7 2 1 1753000000000"
	const good = "\n00weather 0010.0.0.7:1 00gw-1 5 10 ff 1 0 2 1 2 connection refused"
	long := "\n00" + strings.Repeat("c", 70) + good[len("\n00weather"):]
	for compact, want := range map[string]bool{
		head:                               true,
		head + good:                        true,
		head + good + "\n70 64 40 0 0 0 1": true,
		head + good + "\n07 07 40 -9 -9 0 2 1 1 0 1 ":                 true,
		"page 7 2 1 -1" + good:                                        false,
		"page 7 2 1 " + good:                                          false,
		"page 7 2 1 1753000000000 " + good:                            false,
		"page 7 2 1 99999999999999999999" + good:                      false,
		head + good + "\n":                                            false,
		head + good + "\n70 64 40 0 0 0":                              false, // no kind
		head + good + "\n70 64 40 0 0 0 0":                            false,
		head + good + "\n70 64 40 0 0 0 2":                            false,
		head + good + "\n70 64 40 0 0 0 1 0 2 1 2 connection refused": false, // its text is known
		head + good + "\n70 64 40 0 0 0 3 0 2 1 2 connection refused": false,
		head + good + "\n70 64 40 0 0 0 2 0 2 1 2":                    false,
		head + good + "\n70 64 40 0 0 0 2 0 3 1 2 no such state":      false,
		head + good + "\n70 64 40 0 0 0 2 7 2 1 2 no such slot":       false,
		head + good + "\n80 64 40 0 0 0 1":                            false, // longer than the word before
		head + good + "\n44 64 40 0 0 0 1":                            false,
		head + good + "\n/0 64 40 0 0 0 1":                            false,
		head + good + "\n0/ 64 40 0 0 0 1":                            false,
		head + good + "\n7 64 40 0 0 0 1":                             false,
		head + good + "\n70 64 40 1753000000001 0 0 1":                false,
		head + good + "\n70 64 40 0 1753000000001 0 1":                false,
		head + good + "\n70 64 40 0 0 1ffffffff 1":                    false,
		head + good + "\n00 64 40 0 0 0 1":                            false, // no capability
		head + good + strings.Repeat("\n70 64 40 0 0 0 1", 1024-1):    true,
		head + good + strings.Repeat("\n70 64 40 0 0 0 1", 1024):      false,
		head + long + "\np0 64 40 0 0 0 1":                            true,
		head + long + "\nq0 64 40 0 0 0 1":                            false,
		head + good + "\n70 64 40 0 0 0 2 0 2 1  digits are missing":  false,
		head + good + "\n70 64 40 0 0 0 2 00 2 1 2 a digit too many":  false,
	} {
		e, ok := redisstore.DecodeEvent(compact)
		if ok != want || ok && len(e.Entries) != strings.Count(compact, "\n") {
			t.Errorf("%.300q: %+v, %v", compact, e, ok)
		}
	}
	e, _ := redisstore.DecodeEvent(head + good + "\n07 07 40 -9 -9 0 2 1 1 0 1 ")
	want := []health.Entry{
		{Key: health.Key{Capability: "weather", Addr: "10.0.0.7:1"}, Observation: &health.Observation{
			State: health.Down, Refused: true, Dialect: 2, Episode: 255, Written: 1752999999995, Since: 1752999999985,
			By: "gw-1", Reason: "connection refused"}},
		{Key: health.Key{Capability: "weather", Addr: "0.0.7:1", Role: health.Secondary},
			Observation: &health.Observation{State: health.Up, Dialect: 1, Written: 1753000000009,
				Since: 1753000000018, By: "gw-1"}},
	}
	for i := range want {
		if i >= len(e.Entries) || e.Entries[i].Key != want[i].Key || *e.Entries[i].Observation != *want[i].Observation {
			t.Errorf("entry %d: %+v", i, e.Entries)
		}
	}
}
