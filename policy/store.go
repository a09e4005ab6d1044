package policy

import (
	"context"
	"errors"

	"github.com/capgate/capgate/internal/call"
)

// Found is what a store has under a rule's name. A rule that cannot be understood is
// there, and blocks.
type Found struct {
	Present bool
	Verdict call.Verdict
}

// Store keeps the rules that all replicas share.
type Store interface {
	// Find looks for rules of a tenant, "" for the global ones: one answer for each name,
	// in their order. It must end with ctx.
	Find(ctx context.Context, tenant string, names []Name) ([]Found, error)
}

// Change is told to the cache when rules have changed.
type Change struct {
	Everything bool   // what changed is not known
	Tenant     string // "" is global: everybody's decisions may differ
	Name
}

// MostRules is how many rules a tenant may have, and how many may be global.
const MostRules = 2_000_000

// ErrFull is what Set says when there are MostRules.
var ErrFull = errors.New("there are as many rules as there may be")

// Rules are what operators and tenants change. A change is told to every replica's Feed.
type Rules interface {
	Set(ctx context.Context, r Rule) error
	// Delete says whether the rule was there.
	Delete(ctx context.Context, tenant string, n Name) (was bool, err error)
	// List answers with a page of a tenant's rules, by user, agent, capability and tool, and
	// after what to go on: "" is where to begin, and that there is no more.
	List(ctx context.Context, tenant, after string, most int) (rules []Rule, next string, err error)
}
