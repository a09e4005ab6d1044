package policy

import (
	"context"

	"github.com/capgate/capgate/internal/call"
)

// Look is one level or rule that Explain evaluated.
type Look struct {
	Level   Level
	Name    Name         // of the rule; empty for levels without rules
	Said    bool         // there is a verdict
	Verdict call.Verdict // if Said
	Decided bool
}

// Explain decides as Fetch does, but by the rules of a store without the cache, and returns every
// evaluated level and rule in order. A nil store has no rules.
func (d *Decider) Explain(ctx context.Context, store Store, c *call.Call) (Decision, []Look, error) {
	var looks []Look
	ruled := ruling{}
	if store != nil {
		list, found, err := look(ctx, store, keyOf(c))
		if err != nil {
			return Decision{}, nil, err
		}
		ruled = rule(list, found)
		for i, l := range list {
			looks = append(looks, Look{Level: l.level, Name: l.Name, Said: found[i].Present, Verdict: found[i].Verdict})
		}
	}
	verdict, level, state := d.opts.Source.Tool(c.Capability, c.Tool)
	for _, l := range []Level{Recommended, Fleet, Nobody} {
		looks = append(looks, Look{Level: l, Said: l == level, Verdict: verdict})
	}
	deaf := state == Unlisted && ruled.reach == anyTool // the rule does not apply to an unlisted tool
	for i := range looks {
		if looks[i].Said && (!deaf || looks[i].Level >= Recommended) {
			looks[i].Decided = true
			break
		}
	}
	return ruled.decide(verdict, level, state), looks, nil
}
