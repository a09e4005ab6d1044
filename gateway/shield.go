package gateway

import (
	"context"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/policy/extauthz"
)

// Shield is asked about calls that policy would let run, or ask a person about.
type Shield interface {
	// For says, from memory, whether it judges the calls of a capability.
	For(capability string) bool
	// Check may wait, until ctx ends. The refusal is not nil where the call must not go on.
	Check(ctx context.Context, c *call.Call, args []byte) (extauthz.Answer, *call.Refusal)
}

// shielded says whether a Shield judges the calls of a capability.
func (d *deliberations) shielded(capability string) bool {
	return d.shield != nil && d.shield.For(capability)
}

// judge takes the stricter of what policy and Shield say.
func (d *deliberations) judge(ctx context.Context, m *matter, o *outcome) {
	if !m.isToolCall() {
		o.refusal = refusedUnjudgeable
		return
	}
	said, refusal := d.shield.Check(ctx, &m.call, m.brought.Args)
	if o.refusal = refusal; refusal != nil && refusal.Kind == call.InvalidArgument {
		return // it judged nothing
	}
	if said.Verdict < o.decision.Verdict {
		o.decision.Verdict, o.decision.Level, o.decision.Cached = said.Verdict, call.ByShield, said.Cached
	}
	m.decision, m.why = o.decision, said.Reason
}
