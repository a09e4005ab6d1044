package cli

import (
	"fmt"
	"strings"

	"github.com/capgate/capgate/internal/lib/untrusted"
	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
)

// approversOf describes the approvers of an approval and the answers so far, unless one answer of any suffices.
func approversOf(a *capgatepb.Approval) (lines [][2]string) {
	if n := a.GetRequiredAnswers(); n > 1 {
		lines = append(lines, [2]string{"approvers", fmt.Sprintf("%d different people", n)})
		for _, g := range a.GetAnswers() {
			lines = append(lines, [2]string{g.GetAnswer(), givenOf(g)})
		}
	}
	if a.GetState() != "pending" {
		return lines
	}
	if len(a.GetGroups()) > 0 {
		lines = append(lines, [2]string{"groups", untrusted.Word(strings.Join(a.GetGroups(), ", "))})
	}
	if a.GetEscalateTime() != nil {
		lines = append(lines, [2]string{"escalates",
			when(a.GetEscalateTime()) + " to " + untrusted.Word(strings.Join(a.GetEscalateGroups(), ", "))})
	}
	switch {
	case a.GetReasonRequiredToApprove():
		lines = append(lines, [2]string{"comment", "required"})
	case a.GetReasonRequired():
		lines = append(lines, [2]string{"comment", "required for a denial"})
	}
	if why := a.GetMayNotAnswerWhy(); why != "" {
		lines = append(lines, [2]string{"not by you", untrusted.Word(why)})
	}
	return lines
}

func givenOf(g *capgatepb.ApprovalAnswer) string {
	text := when(g.GetTime()) + " by " + untrusted.Word(g.GetBy())
	if g.GetComment() != "" {
		text += ": " + untrusted.Word(g.GetComment())
	}
	return text
}

// stateOf returns an approval's state, with the number of answers if several people have to approve.
func stateOf(a *capgatepb.Approval) string {
	if n := a.GetRequiredAnswers(); n > 1 && a.GetState() == "pending" {
		return fmt.Sprintf("pending %d/%d", len(a.GetAnswers()), n)
	}
	return a.GetState()
}
