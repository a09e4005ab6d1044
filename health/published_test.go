package health_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/capgate/capgate/health"
)

// Only transitions are published: nothing while nothing changes, and for a failed backend the
// observations of its primary and its secondary.
func TestOnlyTransitionsArePublished(t *testing.T) {
	t.Parallel()
	bubble(t, 3, 9, func(t *testing.T, c *cluster) {
		publishes, reports := c.store.Reports()
		pass(30 * time.Minute)
		if now, _ := c.store.Reports(); now != publishes {
			t.Errorf("%d publishes in half an hour without a change", now-publishes)
		}
		c.stop["b4:1"]()
		pass(10 * time.Minute)
		c.everyReplica("b4:1", health.Down)
		if _, now := c.store.Reports(); now-reports < 2 || now-reports > 3 {
			t.Errorf("%d observations were published of one that failed", now-reports)
		}
	})
}

// All replicas show why a backend is down now, not why it once went down. Reasons that change with each probe are
// published once in half a minute.
func TestReasonOfOneThatStaysDown(t *testing.T) {
	t.Parallel()
	bubble(t, 3, 2, func(t *testing.T, c *cluster) {
		const addr = "b1:1"
		says := func(message string) {
			c.served[addr].answer.Store(&answer{message: message})
			pass(2*slow.Interval + time.Second)
			for _, m := range c.members {
				if b := m.backend(addr); b.State != health.Down || b.Reason != message {
					t.Errorf("%s: %v, %q; want %q", m.id, b.State, b.Reason, message)
				}
			}
		}
		says("no disk")
		since := c.members[0].backend(addr).Since
		says("no database")
		if now := c.members[0].backend(addr).Since; !now.Equal(since) {
			t.Errorf("down since %v, and with another reason since %v", since, now)
		}
		b := c.served[addr]
		b.seen = func() { b.answer.Store(&answer{message: fmt.Sprint(b.asked.Load(), " jobs wait")}) }
		asked := b.asked.Load()
		_, before := c.store.Reports()
		pass(30 * time.Minute)
		asked = b.asked.Load() - asked
		if _, now := c.store.Reports(); asked < 160 || now-before < 30 || now-before > 62 {
			t.Errorf("%d reasons of %d probes were published in half an hour", now-before, asked)
		}
		if _, ok := c.members[0].first(addr, health.Up, time.Now().Add(-30*time.Minute)); ok {
			t.Error("it was up between")
		}
	})
}
