package shield_test

import (
	"testing"
	"time"

	"github.com/capgate/capgate/examples/openparallax/shield"
	openparallaxv1 "github.com/capgate/capgate/proto/openparallax/v1"
)

func TestJudgement(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	s := shield.New(shield.Config{
		Now: func() time.Time { return now }, Valid: time.Minute,
		Decisions: map[string]openparallaxv1.VerdictDecision{"send_email": openparallaxv1.VerdictDecision_BLOCK},
	})
	for action, want := range map[string]openparallaxv1.VerdictDecision{
		"read_file": openparallaxv1.VerdictDecision_ALLOW, "EXECUTE_COMMAND": openparallaxv1.VerdictDecision_ESCALATE,
		"delete_file": openparallaxv1.VerdictDecision_BLOCK, "send_email": openparallaxv1.VerdictDecision_BLOCK,
	} {
		for _, r := range []*openparallaxv1.EvaluateRequest{{ActionType: action, PayloadJson: "{}"},
			{ToolName: action, ToolArgsJson: "{}"}} {
			reply, err := s.Evaluate(t.Context(), r)
			v := reply.GetVerdict()
			if err != nil || v.GetDecision() != want || v.GetEvaluatedAt() != 1000 || v.GetExpiresAt() != 1060 ||
				v.GetReasoning() == "" {
				t.Errorf("%v: %v, %v; v %+v", r, reply, err, v)
			}
		}
	}
	if a, b := s.Judge("a", "b"), s.Judge("a", "c"); a.GetActionHash() == b.GetActionHash() {
		t.Error("one hash for two actions")
	}
	if reply, err := s.GetShieldStatus(t.Context(), nil); err != nil || reply.GetEvaluationsToday() != 10 ||
		reply.GetBlocksToday() != 4 {
		t.Errorf("%v, %v", reply, err)
	}
	if reply, err := s.Health(t.Context(), nil); err != nil || !reply.GetHealthy() {
		t.Errorf("%v, %v", reply, err)
	}
}
