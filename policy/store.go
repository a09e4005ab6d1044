package policy

import (
	"context"
	"errors"
	"time"

	"github.com/capgate/capgate/internal/call"
)

// Found is a store's content under a rule's name. A malformed rule is present, and blocks.
type Found struct {
	Present bool
	Verdict call.Verdict
	Expires time.Time // from then on the rule is absent; zero: never
}

// Store holds the rules, shared by all replicas.
type Store interface {
	// Find finds rules of a tenant, "" for the global ones. It returns one result for each name, in
	// order. It must end with ctx.
	Find(ctx context.Context, tenant string, names []Name) ([]Found, error)
}

// Change is a change of rules.
type Change struct {
	Everything bool   // any rule may have changed
	Tenant     string // "": a global rule
	Name
}

// MaxRules bounds the rules of a tenant, and the global ones.
const MaxRules = 2_000_000

// ErrFull is the error of Set when there are MaxRules.
var ErrFull = errors.New("the maximum number of rules is reached; delete unused rules")

// Rules is the interface to change rules. Each change reaches every replica's Feed.
type Rules interface {
	Set(ctx context.Context, r Rule) error
	// Delete reports whether the rule existed.
	Delete(ctx context.Context, tenant string, n Name) (was bool, err error)
	// List returns a page of a tenant's rules, ordered by user, agent, capability and tool, and the token
	// of the next page. "" is the token of the first page, and means that there is no further one.
	List(ctx context.Context, tenant, after string, most int) (rules []Rule, next string, err error)
}
