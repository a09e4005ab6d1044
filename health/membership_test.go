package health_test

import (
	"testing"
	"time"

	"github.com/capgate/capgate/health"
)

// A membership that lost its content lists only the replicas with a later heartbeat. The other
// replicas count as live until they miss their next heartbeats.
func TestMembershipLosesContent(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_000_000, 0)
	r := health.NewReplica(health.ReplicaOptions{ID: "me", Shared: true, Heartbeat: heartbeat})
	r.Set(now, []health.Fleet{{Capability: "c", Backends: []string{"a:1", "b:1", "c:1", "d:1"}}})
	beat := func(after time.Duration, epoch string, others ...health.Member) {
		now = now.Add(after)
		r.Step(now)
		r.OnHeartbeat(now, health.Members{
			Epoch: epoch, Now: now.UnixMilli(), Members: append(others, health.Member{Replica: "me"}),
		}, nil)
	}
	for i, step := range []struct {
		after time.Duration
		epoch string
		age   time.Duration // of the other's last heartbeat; negative: not listed
		want  int           // replicas
	}{
		{0, "1", heartbeat / 2, 2},
		{heartbeat, "1", heartbeat, 2},
		{heartbeat / 2, "2", -1, 2}, // one and a half heartbeats after the other's last one
		{heartbeat / 2, "2", -1, 2},
		{heartbeat, "2", -1, 1},
		{heartbeat / 2, "2", 0, 2},
		{heartbeat * 3 / 2, "2", -1, 1}, // a membership with all its content is authoritative
	} {
		var others []health.Member
		if step.age >= 0 {
			others = append(others, health.Member{Replica: "other", Age: step.age})
		}
		beat(step.after, step.epoch, others...)
		if got := r.Stats().Replicas; got != step.want {
			t.Errorf("step %d: %d replicas, want %d", i, got, step.want)
		}
	}
}

// A port that one replica finds closed and another one cannot reach is not known to be closed.
func TestClosedPortOfOneReplica(t *testing.T) {
	t.Parallel()
	bubble(t, 2, 6, func(t *testing.T, c *cluster) {
		victim := c.ownedBy("r0")
		c.members[1].blackHole()
		c.stop[victim]()
		pass(3 * slow.Interval)
		c.everyReplica(victim, health.Down)
		if first, second := c.store.Observations("c", victim); !first.Refused || second == nil || second.Refused {
			t.Fatalf("in the store: %+v, %+v", first, second)
		}
		for _, m := range c.members {
			if b := m.backend(victim); b.Refused {
				t.Errorf("%s: %+v", m.id, b)
			}
		}
	})
}
