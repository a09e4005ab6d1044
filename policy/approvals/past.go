package approvals

import (
	"context"
	"strings"
	"time"

	"github.com/capgate/capgate/internal/lib/archive"
	"github.com/capgate/capgate/internal/lib/search"
)

const (
	// PastAge is the time for which approvals that have ended are kept, without arguments.
	PastAge = 30 * day
	// MaxPast is about the number of them that a tenant has. One needs about 250 bytes in Redis.
	MaxPast = 5000
	// MaxSeries is the number of tools and people of a tenant that a day counts apart.
	MaxSeries = 200

	day = 24 * time.Hour
)

// Outcome is the end of a pending approval.
type Outcome uint8

// The outcomes. The zero value is none; in a PastFilter it matches all.
const (
	_             Outcome = iota
	PastApproved          // whether or not the call was made
	PastDenied            // by a person
	PastExpired           // without an answer
	PastWithdrawn         // an answer is no longer needed
)

var outcomeNames = [...]string{"", "approved", "denied", "expired", "withdrawn"}

func (o Outcome) String() string { return outcomeNames[o] }

// ParseOutcome parses an outcome's name.
func ParseOutcome(name string) (Outcome, bool) {
	for i, n := range outcomeNames {
		if i > 0 && n == name {
			return Outcome(i), true
		}
	}
	return 0, false
}

// Past is an approval that has ended. Its names have at most 256 bytes, its comment 512.
type Past struct {
	ID, Tenant, User, Agent, Capability, Tool, RequestID string

	Outcome  Outcome
	Created  time.Time
	Ended    time.Time
	Kept     time.Time // when it was recorded: for one that expired, when that was found
	By       string    // of an answer: the approvers
	Comment  string
	Remember Remember
}

// Took returns the time to the answer; 0: there was none.
func (p *Past) Took() time.Duration {
	if p.Outcome != PastApproved && p.Outcome != PastDenied || p.Created.IsZero() {
		return 0
	}
	return max(p.Ended.Sub(p.Created), 0)
}

// PastStore is the store's operations for approvals that have ended. The store records each once, as it ends.
type PastStore interface {
	// Past returns approvals of a tenant that were recorded between two times and before a mark, the newest first, and
	// the mark of the next page; "" if there is none.
	Past(ctx context.Context, tenant string, from, to time.Time, before string, most int) ([]Past, string, error)
	// Days returns the tallies of a tenant on some days since 1970, by series. A day without approvals has none.
	Days(ctx context.Context, tenant string, days []int64) ([]map[Series]Tally, error)
	// PastTenants returns the given tenants with approvals that have ended, in their order.
	PastTenants(ctx context.Context, tenants []string) ([]string, error)
}

// PastFilter selects approvals that have ended. A zero field matches any value.
type PastFilter struct {
	User, Agent, Capability, Tool string
	Outcome                       Outcome
	By                            string       // part of the approvers
	Query                         search.Query // words in the names, the ids, the approvers or the comment

	Sees Sees // nil: all
}

// Past returns a page of the approvals of some tenants that have ended, the newest first. Its error is a *call.Refusal.
func (k *Service) Past(ctx context.Context, tenants []string, f *PastFilter, within archive.Range) (
	archive.Found[Past], error) {
	s := archive.Search[Past]{Range: within, Late: time.Second, Page: k.store.Past, Selects: f.selects,
		At: func(p *Past) (time.Time, string) { return p.Kept, p.ID }}
	found, err := s.Among(ctx, tenants)
	if err != nil {
		return found, refusedUnavailable
	}
	return found, nil
}

func (f *PastFilter) selects(p *Past) bool {
	is := func(want, name string) bool { return want == "" || want == name }
	return is(f.User, p.User) && is(f.Agent, p.Agent) && is(f.Capability, p.Capability) && is(f.Tool, p.Tool) &&
		(f.Outcome == 0 || f.Outcome == p.Outcome) && strings.Contains(p.By, f.By) &&
		(f.Sees == nil || f.Sees(p.Tenant, p.Capability)) &&
		f.Query.Matches(p.ID, p.User, p.Agent, p.Capability, p.Tool, p.RequestID, p.By, p.Comment)
}
