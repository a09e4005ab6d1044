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

// Explain decides as Fetch does, but by the rules of stores without the cache, and returns every evaluated level and
// rule in order. A rule of a later store takes the place of the one with its name in the earlier ones: with the rules
// and the candidates, the decision is the one after the candidates are put in effect. Without a store there are no
// rules.
func (d *Decider) Explain(ctx context.Context, c *call.Call, stores ...Store) (Decision, []Evaluation, error) {
	var evaluations []Evaluation
	ruled := match{}
	var list []leveled
	var found []Found
	for _, store := range stores {
		those, more, err := d.findRules(ctx, store, keyOf(c))
		if err != nil {
			return Decision{}, nil, err
		}
		list, found = those, over(found, more)
	}
	if len(stores) > 0 {
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
