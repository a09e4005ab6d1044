package approvals

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/policy"
)

// maxPage is the greatest length of a page.
const maxPage = 100

// Get returns an approval. Its error is a *call.Refusal: NotFound if there is none.
func (k *Service) Get(ctx context.Context, tenant, id string) (Approval, error) {
	if !isID(id) {
		return Approval{}, refusedUnknown(id)
	}
	r, err := k.store.Get(ctx, tenant, id)
	if err != nil {
		return Approval{}, notFound(err, id)
	}
	return k.view(&r), nil
}

func notFound(err error, id string) error {
	if errors.Is(err, ErrUnknown) {
		return refusedUnknown(id)
	}
	return refusedUnavailable
}

// List returns a page of a tenant's approvals, the newest first, and the token of the next page. "" is
// the token of the first page, and means that there is no further one. A page has at most 100
// approvals. It may be short or empty although others follow.
func (k *Service) List(ctx context.Context, tenant string, f Filter, after string, most int) (page []Approval,
	next string, err error) {
	if most <= 0 || most > maxPage {
		most = maxPage
	}
	records, next, err := k.store.List(ctx, tenant, f, after, most)
	if err != nil {
		return nil, "", refusedUnavailable
	}
	for i := range records {
		page = append(page, k.view(&records[i]))
	}
	return page, next, nil
}

// Approve lets the call run, once. Its error is a *call.Refusal: NotFound; FailedPrecondition if it
// cannot be answered, or not in this way; Unavailable, after which the answer may have been stored; or a
// *RuleError with the approval.
//
// The answer is stored before the rule of an answer for always. So no rule results from an answer
// that was not accepted, and a failure to set the rule is reported.
func (k *Service) Approve(ctx context.Context, tenant, id string, answer Answer) (Approval, error) {
	return k.answer(ctx, tenant, id, Approved, answer)
}

// Deny forbids the call. It has the errors of Approve.
func (k *Service) Deny(ctx context.Context, tenant, id string, answer Answer) (Approval, error) {
	return k.answer(ctx, tenant, id, Denied, answer)
}

// RuleError says that an approval was answered, but that its rule could not be set, or may not have
// reached all replicas.
type RuleError struct{ Cause error }

func (e *RuleError) Error() string {
	return fmt.Sprintf("the call is answered, but the rule for later calls could not be set: %v", e.Cause)
}

func (e *RuleError) Unwrap() error { return e.Cause }

func (k *Service) answer(ctx context.Context, tenant, id string, s State, answer Answer) (Approval, error) {
	if !isID(id) {
		return Approval{}, refusedUnknown(id)
	}
	if answer.Remember == Always {
		if err := k.checkRule(ctx, tenant, id, s); err != nil {
			return Approval{}, err
		}
	}
	answer.By, answer.Comment = readable(answer.By, maxName), readable(answer.Comment, maxName)
	r, answered, err := k.store.Answer(ctx, tenant, id,
		&StoredAnswer{State: s, Answer: answer, Token: rand.Text(), TTL: k.opts.TTL, SessionTTL: k.opts.SessionTTL})
	a := k.view(&r)
	switch {
	case errors.Is(err, ErrNoSession):
		return a, refusedRemember("the call has no session for which an answer could be remembered")
	case err != nil:
		return a, notFound(err, id)
	case !answered:
		return a, refusedAnswer(&a)
	}
	verdict := call.Block
	if k.counters.answered(s); s == Approved {
		verdict = call.Allow
	}
	if answer.Remember != Always {
		return a, nil
	}
	if err := k.opts.Rules.Set(ctx, policy.Rule{
		Tenant: tenant, Name: ruleName(&a), Verdict: verdict, By: answer.By,
	}); err != nil {
		return a, &RuleError{err}
	}
	return a, nil
}

func ruleName(a *Approval) policy.Name {
	return policy.Name{User: a.User, Agent: a.Agent, Capability: a.Capability, Tool: a.Tool}
}

// checkRule rejects answers that cannot become a rule. A rule for all users or for several tools would cover more
// than the approver of one call saw.
func (k *Service) checkRule(ctx context.Context, tenant, id string, s State) error {
	if k.opts.Rules == nil {
		return refusedRemember("the answer cannot be remembered always: this gateway has no store of rules")
	}
	a, err := k.Get(ctx, tenant, id)
	switch n := ruleName(&a); {
	case err != nil:
		return err
	case byBackend(a.Level):
		return refusedRemember("no answer can hold always: the backend itself asks, which heeds no rules of this gateway")
	case n.User == "":
		return refusedRemember("the answer cannot be remembered always: the call names no user for the rule")
	case n.Capability == policy.Any || n.Tool == policy.Any || n.Capability == "" || n.Tool == "":
		return refusedRemember("the answer cannot be remembered always: the rule would apply to more than one tool")
	case s == Approved && k.opts.Current != nil && k.opts.Current(a.Capability, a.Tool) != a.Schema:
		return refusedRemember("the answer cannot be remembered always: the tool has changed or was removed since the call")
	}
	return nil
}
