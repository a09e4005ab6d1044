package health_test

import (
	"slices"
	"testing"
	"time"
)

// TestAllHearOfOneThatHangs: every replica learns of a backend that does not respond, including those that do not probe
// it.
func TestAllHearOfOneThatHangs(t *testing.T) {
	t.Parallel()
	bubble(t, 3, 3, func(t *testing.T, c *cluster) {
		c.served["b0:1"].answer.Store(&answer{message: "loading"})
		pass(2 * slow.Interval)
		for _, m := range c.members {
			if silent := m.silent(); len(silent) > 0 {
				t.Errorf("%s: %v", m.id, silent)
			}
		}
		c.served["b1:1"].answer.Store(&answer{hang: true})
		pass(2 * slow.Interval)
		for _, m := range c.members {
			if silent := slices.Compact(m.silent()); !slices.Equal(silent, []string{"b1:1"}) {
				t.Errorf("%s: %v", m.id, silent)
			}
		}
	})
}

// TestCutOffReplica: a replica that reaches no backend which others reach says so, and says so no more when it reaches
// them. Replicas that all reach nothing do not.
func TestCutOffReplica(t *testing.T) {
	t.Parallel()
	for backends := range 4 {
		bubble(t, 3, 1+3*backends, func(t *testing.T, c *cluster) {
			want := func(when string, cut ...bool) {
				t.Helper()
				for i, m := range c.members {
					if got := m.prober.Stats().CutOff; got != cut[i] {
						t.Errorf("%s: %s says %t", when, m.id, got)
					}
				}
			}
			pass(5 * time.Minute)
			want("while all is well", false, false, false)
			c.members[0].blackHole()
			pass(10 * time.Second)
			want("after 10 s", false, false, false)
			pass(2 * time.Minute)
			want("after two minutes", true, false, false)
			c.members[0].cut.Store(false)
			pass(time.Minute)
			want("again", false, false, false)
			for _, m := range c.members {
				m.blackHole()
			}
			for range 60 {
				pass(5 * time.Second)
				want("without any backend", false, false, false)
			}
			for _, m := range c.members[1:] {
				m.cut.Store(false)
			}
			pass(2 * time.Minute)
			want("with two that reach them", true, false, false)
			c.members[0].gone.Store(true)
			pass(time.Minute)
			want("without news of others", false, false, false)
		})
	}
}
