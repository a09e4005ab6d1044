package approvals_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/policy/approvals"
)

// remembering is a store with an answer for every session.
type remembering struct {
	*memory
	left  time.Duration // its remaining time
	asked int
	of    approvals.Sum // the session of the last request
	gate  chan struct{} // optional; the store responds once it is closed
}

func (r *remembering) Create(_ context.Context, d *approvals.Draft) (asked approvals.CreateResult, err error) {
	r.asked++
	r.of = *d.SessionSum
	asked.Remembered, asked.Left, asked.ID = approvals.Approved, r.left, "apr_session"
	if r.gate != nil {
		<-r.gate
	}
	return asked, nil
}

// inSession creates an approval for a call of a session, which the answer for the session grants.
func inSession(t *testing.T, k *approvals.Service) {
	t.Helper()
	r := request("{}")
	r.Session = "s"
	if a, granted, refusal := k.Create(t.Context(), r); refusal != nil || !granted || a.ID != "apr_session" {
		t.Errorf("%+v, granted %v, %v", a, granted, refusal)
	}
}

// TestAnAnswerForASessionEnds: the store is queried again when the cached answer expires, and not before.
func TestAnAnswerForASessionEnds(t *testing.T) {
	t.Parallel()
	check.Bubble(t, func(t *testing.T) {
		s := &remembering{memory: &memory{}, left: 10 * time.Second}
		k := newKeeper(t, s, approvals.Options{})
		for _, step := range []struct {
			pass  time.Duration
			asked int
		}{{0, 1}, {10*time.Second - 1, 1}, {1, 2}} {
			<-time.After(step.pass)
			if inSession(t, k); s.asked != step.asked {
				t.Errorf("%v later the store was asked %d times, want %d", step.pass, s.asked, step.asked)
			}
		}
	})
}

// TestAnAnswerForASessionThatChanges: an answer is not cached if answers change while it is in transit.
func TestAnAnswerForASessionThatChanges(t *testing.T) {
	t.Parallel()
	check.Bubble(t, func(t *testing.T) {
		s := &remembering{memory: &memory{}, left: time.Hour, gate: make(chan struct{})}
		k := newKeeper(t, s, approvals.Options{})
		ctx, stop := context.WithCancel(t.Context())
		go k.Run(ctx)
		go inSession(t, k)
		synctest.Wait()
		s.told(approvals.Notification{Tenant: "acme", ID: "apr_x", Kind: approvals.EventDenied, Session: new(s.of)})
		close(s.gate)
		synctest.Wait()
		if inSession(t, k); s.asked != 2 {
			t.Errorf("the store was asked %d times, want 2", s.asked)
		}
		if inSession(t, k); s.asked != 2 {
			t.Errorf("a current answer is not kept: %d questions", s.asked)
		}
		stop()
	})
}
