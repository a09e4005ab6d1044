package policy

import (
	"context"

	"github.com/capgate/capgate/internal/call"
)

// Look is one place that was looked at for a decision.
type Look struct {
	Level   Level
	Name    Name // of the rule; empty below the rules
	Said    bool
	Verdict call.Verdict // where it said something
	Decided bool
}

// Explain decides as Ask does, past the cache, and tells every place that was looked at, in
// their order.
func (d *Decider) Explain(ctx context.Context, c *call.Call) (Decision, []Look, error) {
	var looks []Look
	ruled := ruling{}
	if d.opts.Store != nil {
		list, found, err := d.look(ctx, keyOf(c))
		if err != nil {
			return Decision{}, nil, err
		}
		ruled = rule(list, found)
		for i, l := range list {
			looks = append(looks, Look{Level: l.level, Name: l.Name, Said: found[i].Present, Verdict: found[i].Verdict})
		}
	}
	verdict, level, _ := d.opts.Source.Tool(c.Capability, c.Tool)
	for _, l := range []Level{Recommended, Fleet, Nobody} {
		looks = append(looks, Look{Level: l, Said: l == level, Verdict: verdict})
	}
	for i := range looks {
		if looks[i].Said {
			looks[i].Decided = true
			break
		}
	}
	return decide(ruled, d.opts.Source, c.Capability, c.Tool), looks, nil
}
