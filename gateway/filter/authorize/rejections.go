package authorize

import (
	"cmp"
	"fmt"
	"time"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/nearest"
	"github.com/capgate/capgate/policy"
	"github.com/capgate/capgate/policy/approvals"
)

var (
	rejectedDeciding = &call.Refusal{Kind: call.Unavailable, Reason: "POLICY_UNKNOWN", RetryAfter: time.Second,
		Message: "too many calls are waiting for an authorization decision; retry later"}
	rejectedApproval = &call.Refusal{Kind: call.InvalidArgument, Reason: "APPROVAL_INVALID",
		Message: "the metadata x-approval-id and x-approval-wait may each occur once; x-approval-wait is a number " +
			"of seconds"}
	rejectedUnapprovable = &call.Refusal{Kind: call.FailedPrecondition, Reason: "APPROVAL_IMPOSSIBLE",
		Message: "this call requires an approval, but only calls of a tool, by Invoke or StreamInvoke, can be " +
			"approved"}
	rejectedUnread = &call.Refusal{Kind: call.Unavailable, Reason: "POLICY_UNKNOWN", RetryAfter: time.Second,
		Message: "the policy changed while the call was waiting; retry the call"}
	rejectedUncheckable = &call.Refusal{Kind: call.PermissionDenied, Reason: "SHIELD_BLOCKED",
		Message: "a Shield checks the calls of this capability, but only calls of a tool, by Invoke or " +
			"StreamInvoke, can be checked"}
)

// rejectedNever returns the refusal of a call that needs an approval and cannot have one.
func rejectedNever(c *call.Call) *call.Refusal {
	return &call.Refusal{Kind: call.FailedPrecondition, Reason: rejectedUnapprovable.Reason,
		Message: fmt.Sprintf("this call requires an approval, but cannot wait for one; an operator can allow %s of %s "+
			"by a rule", c.Tool, c.Capability), Metadata: map[string]string{"capability": c.Capability}}
}

// forbidden returns the refusal of a call that policy does not allow.
func forbidden(c *call.Call, d policy.Decision) *call.Refusal {
	r := &call.Refusal{
		Kind: call.PermissionDenied, Reason: "TOOL_BLOCKED", Message: "a policy blocks this tool",
		Metadata: map[string]string{"capability": c.Capability, "level": d.Level.String()},
	}
	switch {
	case d.Verdict == call.Ask:
		r.Kind = call.FailedPrecondition
		r.Reason = call.ApprovalRequired
		r.Message = "this tool may only run after a person has approved the call"
	case d.Level == policy.Default:
		r.Message = "no rule, manifest or policy of the fleet allows this tool; an operator can " +
			"allow it with capgate policy set, or with policy: allow in the fleet's configuration"
	}
	return r
}

// level returns what requires the approval of a call: a rule, a declaration, or a toolset.
func (m *request) level(d policy.Decision) string {
	if of := m.approval.toolset; of != "" && d.Drifted && m.why == "" {
		return "toolset " + of
	}
	return d.Level.String()
}

// requiresApproval returns the refusal of a call that may only run with an approval.
func (m *request) requiresApproval(d policy.Decision) *call.Refusal {
	r := forbidden(&m.call, d)
	r.Metadata["level"] = m.level(d)
	return r
}

// approvalRequired returns the refusal of a call that needs an approval. The client may repeat the call with the
// approval's id.
func approvalRequired(m *request, o *result) *call.Refusal {
	r := m.requiresApproval(o.decision)
	r.Metadata["approval"] = o.asked.ID
	if o.asked.State == approvals.Approved {
		r.Message = "a person has approved this call; repeat it with the approval's id in the metadata or header " +
			"x-approval-id"
	}
	r.Metadata["expires"] = o.asked.Expires.UTC().Format(time.RFC3339)
	if o.asked.Link != "" {
		r.Metadata["approval_link"] = o.asked.Link
	}
	r.RetryAfter = comeAgain
	return r
}

// schemaUnknown returns the refusal of a call whose arguments must be checked while the capability's tools are not
// known.
func schemaUnknown(c *call.Call) *call.Refusal {
	return &call.Refusal{
		Kind: call.FailedPrecondition, Reason: "SCHEMA_UNKNOWN",
		Message: "the arguments cannot be checked, because the tool and its schema are not " +
			"known", Metadata: map[string]string{"capability": c.Capability, "tool": c.Tool},
	}
}

// toolUnknown returns the refusal of a call of an unknown tool. It lists the tools that the caller may call.
func toolUnknown(c *call.Call, tools []string) *call.Refusal {
	return &call.Refusal{
		Kind: call.NotFound, Reason: "TOOL_UNKNOWN",
		Message: fmt.Sprintf("the capability has no tool %q%s; you may call %s", call.Quote(c.Tool),
			nearest.Hint(c.Tool, tools), cmp.Or(nearest.List(tools, maxNamed), "none of its tools")),
		Metadata: map[string]string{"capability": c.Capability, "tool": c.Tool},
	}
}

// invalidConfig returns the refusal of a call whose config_json contains forbidden names. err quotes nothing of it.
func invalidConfig(c *call.Call, err error) *call.Refusal {
	return &call.Refusal{
		Kind: call.InvalidArgument, Reason: "CONFIG_INVALID", Message: "config_json " + err.Error(),
		Metadata: map[string]string{"capability": c.Capability, "tool": c.Tool},
	}
}
