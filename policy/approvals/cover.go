package approvals

import (
	"context"
	"crypto/rand"
	"reflect"
	"time"
)

const (
	// maxCovered bounds the approvals that one answer answers besides its own.
	maxCovered = 1000
	// maxCoverPages bounds the pages of approvals that are searched for them.
	maxCoverPages = 100
	// coverTimeout bounds the time that this takes.
	coverTimeout = 10 * time.Second
)

// Covered are the other pending approvals that an answer for session or always has answered.
type Covered struct {
	Approvals []Approval
	Rest      bool // some may be left, because of a bound or an error of the store
}

// cover answers the pending approvals that an answer for session or always covers, each once: of two replicas, or of
// two answers, the first one counts. It goes on when ctx ends, since the answer is stored.
func (k *Service) cover(ctx context.Context, of *Approval, r *StoredAnswer, answer *Answer) *Covered {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), coverTimeout)
	defer cancel()
	done, after := &Covered{}, ""
	filter := Filter{State: Pending, User: of.User, Agent: of.Agent, Capability: of.Capability, Tool: of.Tool}
	for range maxCoverPages {
		page, next, err := k.store.List(ctx, of.Tenant, filter, after, maxPage)
		if err != nil {
			done.Rest = true
			return done
		}
		for i := range page {
			if a := k.view(&page[i]); k.covers(of, &a, r, answer) {
				k.coverOne(ctx, &a, r, done)
			}
			if len(done.Approvals) == maxCovered {
				done.Rest = true
				return done
			}
		}
		if after = next; after == "" {
			return done
		}
	}
	done.Rest = true
	return done
}

// covers reports whether an answer to one approval holds for another one, which needs the same answers and could get
// this one, too.
func (k *Service) covers(of, a *Approval, r *StoredAnswer, answer *Answer) bool {
	if a.State != Pending || a.ID == of.ID || byBackend(a.Level) || ruleName(a) != ruleName(of) {
		return false
	}
	if (r.Remember == ThisSession || r.State == Approved) && a.Schema != of.Schema ||
		r.Remember == ThisSession && a.Session != of.Session {
		return false
	}
	own := *answer // its validity was set by the terms of the answered approval
	own.Remember, own.ValidFor = ThisCall, 0
	if k.permit(a, r.State, &own) != nil {
		return false
	}
	return r.State == Denied || a.Terms.Answers == 1 && of.Terms.Answers == 1 ||
		sameTerms(a.Terms, of.Terms) && !a.Created.Before(of.Created) && len(a.Answers) == 0
}

// sameTerms reports whether the same people may answer two approvals.
func sameTerms(a, b *Terms) bool {
	x, y := *a, *b
	x.Escalates, y.Escalates = time.Time{}, time.Time{}
	return reflect.DeepEqual(x, y)
}

// coverOne answers an approval with the answer to another one. It is for this call alone in the store, where the answer
// to the other one holds for the session.
func (k *Service) coverOne(ctx context.Context, a *Approval, r *StoredAnswer, done *Covered) {
	own := *r
	own.Token, own.Remember, own.ValidFor, own.More = rand.Text(), ThisCall, 0, false
	own.Checked, own.Before = true, nil
	for i := range a.Answers {
		own.Before = append(own.Before, a.Answers[i].Person)
	}
	if own.Given.State != 0 {
		own.Given.Remember, own.Given.ValidFor = ThisCall, 0
	}
	record, result, err := k.store.Answer(ctx, a.Tenant, a.ID, &own)
	switch {
	case err != nil || result == AnswerStale:
		done.Rest = true
	case result == AnswerGiven:
		after := k.view(&record)
		k.observe(&after, r.State)
		done.Approvals = append(done.Approvals, after)
	}
}
