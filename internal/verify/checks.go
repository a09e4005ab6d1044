package verify

import (
	"context"
	"strings"

	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
)

func (v *verifier) checkAsked(ctx context.Context) (result, why string) {
	call := attempt{session: "asked"}
	end := v.try(ctx, call)
	id := end.info["approval"]
	switch {
	case end.ran:
		return Fail, "the call ran"
	case end.reason != "APPROVAL_REQUIRED":
		if end.reason == "" || strings.HasPrefix(end.reason, "CREDENTIAL_") {
			v.lost = end.err
		}
		return NotChecked, end.unclear()
	case id == "":
		return Fail, "APPROVAL_REQUIRED has no id of an approval"
	}
	found, err := v.get(ctx, id)
	if err != nil {
		return NotChecked, err.Error()
	}
	v.made = append(v.made, made{found, call})
	switch {
	case found.GetState() != "pending":
		return Fail, "the new approval is " + found.GetState()
	case found.GetCapability() != v.Call.Capability || found.GetTool() != v.Call.Tool:
		return Fail, "the approval is for another tool: " + found.GetTool() + " of " + found.GetCapability()
	}
	return Pass, ""
}

func (v *verifier) checkPending(ctx context.Context) (result, why string) {
	found, err := v.ask(ctx, attempt{session: "pending"})
	if err != nil {
		return NotChecked, err.Error()
	}
	return v.try(ctx, attempt{session: "pending", approval: found.GetId()}).refused("APPROVAL_PENDING")
}

func (v *verifier) checkOnce(ctx context.Context) (result, why string) {
	found, err := v.approved(ctx, attempt{session: "once"})
	if err != nil {
		return NotChecked, err.Error()
	}
	return v.use(ctx, attempt{session: "once", approval: found.GetId()})
}

// use makes an approved call.
func (v *verifier) use(ctx context.Context, a attempt) (result, why string) {
	end := v.try(ctx, a)
	switch {
	case end.ran:
		return Pass, ""
	case strings.HasPrefix(end.reason, "APPROVAL_"):
		return Fail, "the approved call was refused with " + end.reason
	}
	return NotChecked, end.unclear()
}

func (v *verifier) checkReplay(ctx context.Context) (result, why string) {
	found, err := v.approved(ctx, attempt{session: "replay"})
	if err != nil {
		return NotChecked, err.Error()
	}
	again := attempt{session: "replay", approval: found.GetId()}
	if result, why = v.use(ctx, again); result != Pass {
		return NotChecked, why
	}
	for again.replica = range max(2, len(v.Callers)) { // the replay may come to any replica
		if result, why = v.try(ctx, again).refused("APPROVAL_USED"); result != Pass {
			return result, why
		}
	}
	return Pass, ""
}

func (v *verifier) checkArguments(ctx context.Context) (result, why string) {
	if v.Call.OtherArgs == nil {
		return NotChecked, "no other arguments are known; --other-args has them"
	}
	return v.mismatch(ctx, "arguments", attempt{args: v.Call.OtherArgs})
}

func (v *verifier) checkSession(ctx context.Context) (result, why string) {
	return v.mismatch(ctx, "session", attempt{session: "another session"})
}

// mismatch uses an approval for another call.
func (v *verifier) mismatch(ctx context.Context, session string, other attempt) (result, why string) {
	found, err := v.approved(ctx, attempt{session: session})
	if err != nil {
		return NotChecked, err.Error()
	}
	other.approval = found.GetId()
	if other.session == "" {
		other.session = session
	}
	return v.try(ctx, other).refused("APPROVAL_MISMATCH", "APPROVAL_UNKNOWN")
}

// otherName is the name of the other user and the other agent.
const otherName = "capgate-verify-other"

func (v *verifier) checkUser(ctx context.Context) (result, why string) {
	return v.checkIdentity(ctx, "user", attempt{user: otherName}, (*capgatepb.Approval).GetUser)
}

func (v *verifier) checkAgent(ctx context.Context) (result, why string) {
	return v.checkIdentity(ctx, "agent", attempt{agent: otherName}, (*capgatepb.Approval).GetAgent)
}

// checkIdentity finds out first whether the caller may assert an identity: the gateway ignores it otherwise.
func (v *verifier) checkIdentity(ctx context.Context, what string, other attempt,
	of func(*capgatepb.Approval) string) (result, why string) {
	trial := other
	trial.session = "trial " + what
	found, err := v.ask(ctx, trial)
	if err != nil {
		return NotChecked, err.Error()
	}
	if of(found) != otherName {
		return NotChecked, "the caller's credential may not assert another " + what
	}
	return v.mismatch(ctx, what, other)
}

func (v *verifier) checkDenial(ctx context.Context) (result, why string) {
	found, err := v.ask(ctx, attempt{session: "denial"})
	if err == nil {
		err = v.deny(ctx, found.GetId(), note+" denies "+v.session)
	}
	if err != nil {
		return NotChecked, err.Error()
	}
	end := v.try(ctx, attempt{session: "denial", approval: found.GetId()})
	if result, why = end.refused("APPROVAL_DENIED"); result != Pass {
		return result, why
	}
	if !strings.Contains(end.info["comment"]+end.text, v.session) {
		return Fail, "the refusal has no reason: " + end.text
	}
	return Pass, ""
}
