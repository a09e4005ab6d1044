package health_test

import (
	"testing"
	"time"

	"github.com/capgate/capgate/health"
)

// A roll that has lost everything names only those who have beaten since. The others are
// not dead for that, unless they stay away.
func TestRollForgets(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_000_000, 0)
	r := health.NewReplica(health.ReplicaOptions{ID: "me", Shared: true, Heartbeat: heartbeat})
	r.Set(now, []health.Fleet{{Capability: "c", Backends: []string{"a:1", "b:1", "c:1", "d:1"}}})
	beat := func(after time.Duration, epoch string, others ...health.Member) {
		now = now.Add(after)
		r.Step(now)
		r.Beaten(now, health.Members{Epoch: epoch, Now: now.UnixMilli(), Members: append(others, health.Member{Replica: "me"})}, nil)
	}
	for i, step := range []struct {
		after time.Duration
		epoch string
		age   time.Duration // of the other's last beat; negative: the roll does not name it
		want  int           // replicas
	}{
		{0, "1", heartbeat / 2, 2},
		{heartbeat, "1", heartbeat, 2},
		{heartbeat / 2, "2", -1, 2}, // one and a half heartbeats since the other was heard of
		{heartbeat / 2, "2", -1, 2},
		{heartbeat, "2", -1, 1},
		{heartbeat / 2, "2", 0, 2},
		{heartbeat * 3 / 2, "2", -1, 1}, // a roll that has lost nothing is believed
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
