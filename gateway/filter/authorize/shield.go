package authorize

import (
	"context"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/policy/extauthz"
)

// Shield is an external authorization service. It checks calls that policy allows, or allows after an approval.
type Shield interface {
	// For reports, from memory, whether the Shield checks the calls of a capability.
	For(capability string) bool
	// Check may wait until ctx ends. The refusal is not nil if the call must not continue.
	Check(ctx context.Context, c *call.Call, args []byte) (extauthz.Answer, *call.Refusal)
}

// shielded reports whether a Shield checks the calls of a capability.
func (f *Filter) shielded(capability string) bool {
	return f.cfg.Shield != nil && f.cfg.Shield.For(capability)
}

// consultShield takes the stricter of the decisions of policy and Shield.
func (f *Filter) consultShield(ctx context.Context, m *request, o *result) {
	if !m.isToolCall() {
		o.refusal = rejectedUncheckable
		return
	}
	said, refusal := f.cfg.Shield.Check(ctx, &m.call, m.brought.Args)
	if o.refusal = refusal; refusal != nil && refusal.Kind == call.InvalidArgument {
		return // the Shield checked nothing
	}
	if said.Verdict < o.decision.Verdict {
		o.decision.Verdict, o.decision.Level, o.decision.Cached = said.Verdict, call.ByShield, said.Cached
	}
	m.decision, m.why = o.decision, said.Reason
}
