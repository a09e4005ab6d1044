package approvals

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/policy"
)

// maxPage is the greatest length of a page.
const maxPage = 100

// Get returns an approval with all its arguments. Its error is a *call.Refusal: NotFound if there is none.
func (k *Service) Get(ctx context.Context, tenant, id string) (Approval, error) {
	if !isID(id) {
		return Approval{}, refusedUnknown(id)
	}
	r, err := k.store.Get(ctx, tenant, id)
	if err != nil {
		return Approval{}, notFound(err, id)
	}
	return k.viewWithin(&r, bounds{}), nil
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

// Withdraw expires a pending approval that no longer needs an answer. It does nothing to an approval in another state.
func (k *Service) Withdraw(ctx context.Context, tenant, id string) error {
	if err := k.store.Withdraw(ctx, tenant, id); err != nil {
		return refusedUnavailable
	}
	return nil
}

// RuleError says that an approval was answered, but that its rule could not be set, or may not have
// reached all replicas.
type RuleError struct{ Cause error }

func (e *RuleError) Error() string {
	return fmt.Sprintf("the call is answered, but the rule for later calls could not be set: %v", e.Cause)
}

func (e *RuleError) Unwrap() error { return e.Cause }

// answerTries bounds the attempts at an answer while others answer, too.
const answerTries = 2*MaxAnswers + 2

func (k *Service) answer(ctx context.Context, tenant, id string, s State, answer Answer) (Approval, error) {
	answer.By, answer.Comment = readable(answer.By, maxName), readable(answer.Comment, maxName)
	token := rand.Text()
	for range answerTries {
		was, err := k.Get(ctx, tenant, id)
		if err != nil {
			return Approval{}, err
		}
		if was.State == Pending {
			if err := k.permit(&was, s, &answer); err != nil {
				return was, err
			}
		}
		stored := k.storedAnswer(&was, s, &answer, token)
		r, result, err := k.store.Answer(ctx, tenant, id, stored)
		if result == AnswerStale && err == nil {
			continue
		}
		a, err := k.answered(ctx, stored, &r, result, err)
		if err == nil && result == AnswerGiven && stored.Remember != ThisCall {
			a.Covered = k.cover(ctx, &a, stored, &answer)
		}
		return a, err
	}
	return Approval{}, refusedUnavailable
}

// permit judges an answer to a pending approval.
func (k *Service) permit(was *Approval, s State, answer *Answer) error {
	if was.Level == Elsewhere {
		return refusedElsewhere(was)
	}
	if s == Approved && !was.Seen() {
		return RefusedUnseen(was)
	}
	if refusal := k.checkAnswer(was, s, answer); refusal != nil {
		return refusal
	}
	if answer.Remember == Always {
		return k.checkRule(was, s)
	}
	return nil
}

// storedAnswer combines an answer with earlier ones. With several people, the answer is remembered for the narrowest
// scope and the shortest time that they chose.
func (k *Service) storedAnswer(was *Approval, s State, answer *Answer, token string) *StoredAnswer {
	mine := GivenAnswer{Person: answer.Who.person(), Names: answer.Who.Names, Makers: answer.Who.Makers, By: answer.By,
		User: answer.Who.User, State: s, Comment: answer.Comment, Remember: answer.Remember, ValidFor: answer.ValidFor}
	r := &StoredAnswer{State: s, Given: mine, Token: token, TTL: k.opts.TTL, By: answer.By, Comment: answer.Comment,
		Names: []string{answer.By}, Remember: answer.Remember, ValidFor: answer.ValidFor}
	need := 1
	if was.Terms != nil {
		need = was.Terms.Answers
	}
	if s == Denied || need == 1 && len(was.Answers) == 0 {
		return r
	}
	r.Checked = true
	all := was.Answers
	for i := range all {
		r.Before = append(r.Before, all[i].Person)
	}
	if gave(was.Answers, &answer.Who) {
		r.Given = GivenAnswer{} // fewer people are needed now than when it was recorded
	} else {
		all = append(slices.Clone(all), mine)
	}
	if r.More = len(all) < need; !r.More {
		combine(r, all, was.Terms)
	}
	return r
}

// combine sets the part of the answer that several people share.
func combine(r *StoredAnswer, all []GivenAnswer, t *Terms) {
	names := make([]string, len(all))
	r.Remember, r.ValidFor = Always, 0
	for i := range all {
		names[i] = all[i].By
		r.Remember = min(r.Remember, all[i].Remember)
	}
	r.By, r.Names = readable(strings.Join(names, ", "), maxName), names
	if r.Remember == ThisCall {
		return
	}
	r.ValidFor = t.MaxValidity
	if r.Remember == ThisSession {
		r.ValidFor = maxSessionTTL
		if t.MaxValidity > 0 {
			r.ValidFor = min(r.ValidFor, t.MaxValidity)
		}
	}
	for i := range all {
		if v := all[i].ValidFor; v > 0 && (r.ValidFor == 0 || v < r.ValidFor) {
			r.ValidFor = v
		}
	}
}

// answered returns the result of the store, and sets the rule of a final answer for always.
func (k *Service) answered(ctx context.Context, r *StoredAnswer, record *Record, result AnswerResult,
	err error) (Approval, error) {
	a := k.view(record)
	switch {
	case errors.Is(err, ErrNoSession):
		return a, refusedRemember("the call has no session for which an answer could be remembered")
	case err != nil:
		return a, notFound(err, record.ID)
	case result == AnswerLate:
		return a, refusedAnswer(&a)
	case result == AnswerRecorded:
		return a, nil
	}
	verdict := call.Block
	if k.observe(&a, r.State); r.State == Approved {
		verdict = call.Allow
	}
	if r.Remember != Always {
		return a, nil
	}
	a.ValidFor = r.ValidFor
	rule := policy.Rule{Tenant: a.Tenant, Name: ruleName(&a), Verdict: verdict, By: r.By, Expires: a.ValidUntil()}
	if err := k.opts.Rules.Set(ctx, rule); err != nil {
		return a, &RuleError{err}
	}
	return a, nil
}

// observe counts an answered approval.
func (k *Service) observe(a *Approval, s State) {
	if k.opts.Answered != nil {
		k.opts.Answered(a)
	}
	k.counters.answered(s)
}

func ruleName(a *Approval) policy.Name {
	return policy.Name{User: a.User, Agent: a.Agent, Capability: a.Capability, Tool: a.Tool}
}

// checkRule rejects answers that cannot become a rule. A rule for all users or for several tools would cover more
// than the approver of one call saw.
func (k *Service) checkRule(a *Approval, s State) error {
	if k.opts.Rules == nil {
		return refusedRemember("the answer cannot be remembered always: this gateway has no store of rules")
	}
	switch n := ruleName(a); {
	case byBackend(a.Level):
		return refusedRemember("the answer cannot be remembered always: the backend requests approval itself, and " +
			"rules of this gateway do not apply to it")
	case n.User == "":
		return refusedRemember("the answer cannot be remembered always: the call names no user for the rule")
	case n.Capability == policy.Any || n.Tool == policy.Any || n.Capability == "" || n.Tool == "":
		return refusedRemember("the answer cannot be remembered always: the rule would apply to more than one tool")
	case s == Approved && k.opts.Current != nil && k.opts.Current(a.Capability, a.Tool) != a.Schema:
		return refusedRemember("the answer cannot be remembered always: the tool has changed or was removed since " +
			"the call")
	}
	return nil
}
