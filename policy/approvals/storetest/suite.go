// Package storetest has the tests that every approvals.Store passes, also one that is only for tests of services: how
// approvals are created, found and answered. What protects a redemption is tested where Redis is.
package storetest

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/contract"
	"github.com/capgate/capgate/policy/approvals"
)

// Suite returns the tests.
func Suite() contract.Suite[approvals.Store] {
	return contract.Suite[approvals.Store]{
		"approvals are found":          testFound,
		"several people answer":        testAnswers,
		"a token identifies an answer": testTokens,
		"an approval can be withdrawn": testWithdraw,
		"answers are notified":         testWatch,
		"approvals that end are kept":  testPast,
		"days are counted":             testDays,
		"an answer skips no approval":  testExpiring,
	}
}

func create(t *testing.T, s approvals.Store, n byte) (id string) {
	t.Helper()
	d := &approvals.Draft{CallSum: approvals.Sum{n}, TTL: time.Minute, MaxOpen: 9}
	d.ID, d.Tenant, d.Tool = "apr_"+string('A'+rune(n)), "acme", "send"
	got, err := s.Create(t.Context(), d)
	if err != nil || !got.New || got.ID != d.ID || got.State != approvals.Pending {
		t.Fatalf("created %+v, %v", got, err)
	}
	return d.ID
}

func answer(t *testing.T, s approvals.Store, id, by string, more bool, want approvals.AnswerResult,
	state approvals.State, people int) {
	t.Helper()
	answerAs(t, s, "token-"+by, id, by, more, want, state, people)
}

func answerAs(t *testing.T, s approvals.Store, token, id, by string, more bool, want approvals.AnswerResult,
	state approvals.State, people int) {
	t.Helper()
	given := approvals.GivenAnswer{Person: by, By: by, State: approvals.Approved, Remember: approvals.ThisCall}
	got, result, err := s.Answer(t.Context(), "acme", id, &approvals.StoredAnswer{State: given.State, Given: given,
		Token: token, TTL: time.Minute, By: by, Remember: approvals.ThisCall, More: more})
	if err != nil || result != want || got.State != state || len(got.Answers) != people {
		t.Errorf("%s answers: %v, %v, %v by %d people, want %v", by, result, err, got.State, len(got.Answers), want)
	}
}

func expectState(t *testing.T, s approvals.Store, id string, want approvals.State) {
	t.Helper()
	got, err := s.Get(t.Context(), "acme", id)
	if err != nil || got.ID != id || got.State != want {
		t.Errorf("%+v, %v, want %v", got, err, want)
	}
	if state, lasts, err := s.State(t.Context(), "acme", id); err != nil || state != want ||
		want == approvals.Pending && lasts <= 0 {
		t.Errorf("state %v for %v, %v, want %v", state, lasts, err, want)
	}
}

func testFound(t *testing.T, open func() approvals.Store) {
	a, b := open(), open()
	one, two := create(t, a, 1), create(t, b, 2)
	for _, id := range []string{one, two} {
		expectState(t, b, id, approvals.Pending)
	}
	page, next, err := a.List(t.Context(), "acme", approvals.Filter{}, "", 10)
	if err != nil || next != "" || len(page) != 2 {
		t.Errorf("%d approvals, %q, %v", len(page), next, err)
	}
	_, err = a.Get(t.Context(), "acme", "apr_X")
	_, _, err2 := a.State(t.Context(), "acme", "apr_X")
	_, _, err3 := a.Answer(t.Context(), "acme", "apr_X", &approvals.StoredAnswer{State: approvals.Denied, Token: "t"})
	for _, err := range []error{err, err2, err3} {
		if !errors.Is(err, approvals.ErrUnknown) {
			t.Errorf("an unknown approval: %v", err)
		}
	}
}

func testAnswers(t *testing.T, open func() approvals.Store) {
	a, b := open(), open()
	id := create(t, a, 1)
	answer(t, a, id, "ann", true, approvals.AnswerRecorded, approvals.Pending, 1)
	answer(t, b, id, "bob", false, approvals.AnswerGiven, approvals.Approved, 2)
	answer(t, a, id, "eve", false, approvals.AnswerLate, approvals.Approved, 2)
	if got, err := b.Get(t.Context(), "acme", id); err != nil || got.By != "bob" || got.Answered.IsZero() {
		t.Errorf("%+v, %v", got, err)
	}
}

// testTokens: an answer is repeated with its token, whatever that contains. Another token is another answer.
func testTokens(t *testing.T, open func() approvals.Store) {
	s := open()
	id := create(t, s, 1)
	const token = "a 1 {b}%20"
	for range 2 {
		answerAs(t, s, token, id, "ann", true, approvals.AnswerRecorded, approvals.Pending, 1)
	}
	if got, err := s.Get(t.Context(), "acme", id); err != nil || len(got.Answers) != 1 || got.Answers[0].By != "ann" {
		t.Errorf("%+v, %v", got.Answers, err)
	}
	answer(t, s, id, "bob", false, approvals.AnswerGiven, approvals.Approved, 2)
	for other, want := range map[string]approvals.AnswerResult{token: approvals.AnswerGiven,
		"a": approvals.AnswerLate, "a 1": approvals.AnswerLate, "a 1 {b} ": approvals.AnswerLate} {
		answerAs(t, s, other, id, "ann", true, want, approvals.Approved, 2)
	}
}

func testWithdraw(t *testing.T, open func() approvals.Store) {
	s := open()
	withdrawn, answered := create(t, s, 1), create(t, s, 2)
	answer(t, s, answered, "ann", false, approvals.AnswerGiven, approvals.Approved, 1)
	for _, id := range []string{withdrawn, withdrawn, answered, "apr_X"} {
		check.Must(t, s.Withdraw(t.Context(), "acme", id))
	}
	expectState(t, s, withdrawn, approvals.Expired)
	expectState(t, s, answered, approvals.Approved)
	answer(t, s, withdrawn, "ann", false, approvals.AnswerLate, approvals.Expired, 0)
}

func testWatch(t *testing.T, open func() approvals.Store) {
	a, b := open(), open()
	ctx, cancel := context.WithCancel(t.Context())
	notices, connected := make(chan approvals.Notification, 10), make(chan struct{}, 10)
	var watching sync.WaitGroup
	defer check.Ended(t, &watching, "the watch to stop")
	defer cancel()
	watching.Go(func() {
		b.Watch(ctx, func(n approvals.Notification) { notices <- n }, func() { connected <- struct{}{} })
	})
	check.Received(t, connected, "the subscription")
	id := create(t, a, 1)
	answer(t, a, id, "ann", false, approvals.AnswerGiven, approvals.Approved, 1)
	for n := (approvals.Notification{}); n.Kind != approvals.EventApproved; {
		if n = check.Received(t, notices, "the answer"); n.ID != id || n.Tenant != "acme" {
			t.Errorf("%+v", n)
		}
	}
}
