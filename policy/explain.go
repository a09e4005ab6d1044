package policy

import (
	"context"

	"github.com/capgate/capgate/internal/call"
)

// Evaluation is one level or rule that Explain evaluated.
type Evaluation struct {
	Level   Level
	Name    Name         // of the rule; empty for levels without rules
	Matched bool         // there is a verdict
	Verdict call.Verdict // if Said
	Decided bool
}

// Explain decides as Fetch does, but by the rules of a store without the cache, and returns every
// evaluated level and rule in order. A nil store has no rules.
func (d *Decider) Explain(ctx context.Context, store Store, c *call.Call) (Decision, []Evaluation, error) {
	var evaluations []Evaluation
	ruled := match{}
	if store != nil {
		list, found, err := d.findRules(ctx, store, keyOf(c))
		if err != nil {
			return Decision{}, nil, err
		}
		ruled, _ = firstMatch(list, found)
		for i, l := range list {
			evaluations = append(evaluations, Evaluation{
				Level: l.level, Name: l.Name, Matched: found[i].Present, Verdict: found[i].Verdict,
			})
		}
	}
	verdict, level, state := d.opts.Source.Tool(c.Capability, c.Tool)
	for _, l := range []Level{Recommended, Fleet, Default} {
		evaluations = append(evaluations, Evaluation{Level: l, Matched: l == level, Verdict: verdict})
	}
	ignored := state == Unlisted && ruled.scope == anyTool // the rule does not apply to an unlisted tool
	for i := range evaluations {
		if evaluations[i].Matched && (!ignored || evaluations[i].Level >= Recommended) {
			evaluations[i].Decided = true
			break
		}
	}
	return ruled.decide(verdict, level, state), evaluations, nil
}
