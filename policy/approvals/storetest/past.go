package storetest

import (
	"slices"
	"testing"
	"time"

	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/policy/approvals"
)

// ask creates an approval of a tool by ann.
func ask(t *testing.T, s approvals.Store, n byte, tool string, ttl time.Duration) (id string) {
	t.Helper()
	d := &approvals.Draft{CallSum: approvals.Sum{n}, TTL: ttl, MaxOpen: 99}
	d.ID, d.Tenant, d.User, d.Agent = "apr_"+string('A'+rune(n)), "acme", "ann", "bot"
	d.Capability, d.Tool, d.RequestID, d.Preview = "mail", tool, "r1", "secret"
	_, err := s.Create(t.Context(), d)
	check.Must(t, err)
	return d.ID
}

// decide answers an approval.
func decide(t *testing.T, s approvals.Store, id, token string, state approvals.State, comment string, by ...string) {
	t.Helper()
	given := approvals.GivenAnswer{Person: by[0], By: by[0], State: state}
	_, _, err := s.Answer(t.Context(), "acme", id, &approvals.StoredAnswer{State: state, Given: given, Token: token,
		TTL: time.Hour, By: by[0], Names: by, Comment: comment, Remember: approvals.ThisCall})
	check.Must(t, err)
}

// past returns the approvals that have ended, the newest first.
func past(t *testing.T, s approvals.Store, tenant string, most int) (all []approvals.Past) {
	t.Helper()
	now := time.Now()
	for mark, pages := "", 0; pages == 0 || mark != ""; pages++ {
		page, next, err := s.Past(t.Context(), tenant, now.Add(-time.Hour), now.Add(time.Hour), mark, most)
		if err != nil || len(page) > most || pages > 9 {
			t.Fatalf("page %d: %d, %v", pages, len(page), err)
		}
		all, mark = append(all, page...), next
	}
	return all
}

// testPast: each approval is kept once, as it ends, with its names and its answer and without its arguments.
func testPast(t *testing.T, open func() approvals.Store) {
	a, b := open(), open()
	ids := []string{ask(t, a, 1, "send", time.Minute), ask(t, a, 2, "send", time.Minute),
		ask(t, b, 3, "read", time.Minute), ask(t, b, 4, "read", time.Minute)}
	for range 2 {
		decide(t, b, ids[0], "t1", approvals.Approved, "", "ann", "bob")
		decide(t, a, ids[1], "t2", approvals.Denied, "not today", "bob")
		check.Must(t, a.Withdraw(t.Context(), "acme", ids[2]))
	}
	decide(t, a, ids[1], "t3", approvals.Approved, "", "eve")
	got := past(t, b, "acme", 2)
	var kept []string
	for i := range got {
		kept = append(kept, got[i].ID+" "+got[i].Outcome.String())
	}
	slices.Sort(kept)
	want := []string{ids[0] + " approved", ids[1] + " denied", ids[2] + " withdrawn"}
	if !slices.Equal(kept, want) || len(past(t, a, "globex", 2)) != 0 {
		t.Fatalf("kept %v, want %v", kept, want)
	}
	for i := range got {
		if got[i].Outcome == approvals.PastDenied {
			p := got[i]
			if p.Created.IsZero() || p.Ended.Before(p.Created) || time.Since(p.Kept).Abs() > time.Minute {
				t.Errorf("times: %+v", p)
			}
			p.Created, p.Ended, p.Kept = time.Time{}, time.Time{}, time.Time{}
			if want := (approvals.Past{ID: ids[1], Tenant: "acme", User: "ann", Agent: "bot", Capability: "mail",
				Tool: "send", RequestID: "r1", Outcome: approvals.PastDenied, By: "bob",
				Comment: "not today"}); p != want {
				t.Errorf("kept %+v, want %+v", p, want)
			}
		}
	}
	of, err := b.PastTenants(t.Context(), []string{"globex", "acme"})
	if err != nil || !slices.Equal(of, []string{"acme"}) {
		t.Errorf("tenants with approvals that have ended: %v, %v", of, err)
	}
}

// testDays: the numbers of a day are the sum of all its approvals, also by tool and by person.
func testDays(t *testing.T, open func() approvals.Store) {
	a, b := open(), open()
	decide(t, a, ask(t, a, 1, "send", time.Minute), "t", approvals.Approved, "", "ann", "bob")
	decide(t, b, ask(t, a, 2, "send", time.Minute), "t", approvals.Denied, "", "bob")
	decide(t, b, ask(t, a, 3, "read", time.Minute), "t", approvals.Approved, "", "bob")
	short := ask(t, a, 4, "read", time.Millisecond)
	check.Until(t, "the approval to expire", func() (bool, string) {
		got, err := b.Get(t.Context(), "acme", short)
		return err == nil && got.State == approvals.Expired, got.State.String()
	})
	today := time.Now().Unix() / 86400
	days, err := b.Days(t.Context(), "acme", []int64{today - 1, today, today + 1}) // the day may end now
	check.Must(t, err)
	sum := map[approvals.Series]approvals.Tally{}
	for _, day := range days {
		for of, t := range day {
			tally := sum[of]
			tally.Add(&t)
			sum[of] = tally
		}
	}
	numbers := func(of approvals.Series) (n [4]int64) {
		tally := sum[of]
		for o := range n {
			n[o] = tally.Of(approvals.Outcome(o + 1))
		}
		return n
	}
	for of, want := range map[approvals.Series][4]int64{
		{}: {2, 1, 1, 0},
		{Kind: approvals.OfTool, Capability: "mail", Tool: "send"}: {1, 1, 0, 0},
		{Kind: approvals.OfTool, Capability: "mail", Tool: "read"}: {1, 0, 1, 0},
		{Kind: approvals.OfPerson, By: "ann"}:                      {1, 0, 0, 0},
		{Kind: approvals.OfPerson, By: "bob"}:                      {2, 1, 0, 0},
	} {
		if got := numbers(of); got != want {
			t.Errorf("%+v: %v, want %v", of, got, want)
		}
	}
	if all := sum[approvals.Series{}]; len(sum) != 5 || all.Quantile(1) <= 0 || all.Quantile(1) > time.Minute {
		t.Errorf("%d series, and the longest answer took %v", len(sum), all.Quantile(1))
	}
}

// testExpiring: the approvals that expire first come first, and none is skipped or repeated because an earlier one was
// answered between two pages.
func testExpiring(t *testing.T, open func() approvals.Store) {
	a, b := open(), open()
	var want []string
	for n := range byte(20) {
		want = append(want, ask(t, a, n+1, "send", time.Duration(n/5+1)*time.Minute))
	}
	f := approvals.Filter{State: approvals.Pending, Order: approvals.Expires}
	var got []string
	for after, pages := "", 0; pages == 0 || after != ""; pages++ {
		page, next, err := b.List(t.Context(), "acme", f, after, 3)
		if err != nil || pages > 8 {
			t.Fatalf("page %d: %v", pages, err)
		}
		for i := range page {
			got = append(got, page[i].ID)
		}
		if after = next; len(page) > 0 { // the last one, where the next page begins, and the first one
			last, first := page[len(page)-1].ID, page[0].ID
			decide(t, a, last, "t", approvals.Approved, "", "ann")
			decide(t, a, first, "t", approvals.Denied, "", "ann")
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("listed %v, want %v", got, want)
	}
}
