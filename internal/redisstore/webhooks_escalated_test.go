package redisstore_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/capgate/capgate/internal/redisstore"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/policy/approvals"
	"github.com/capgate/capgate/policy/approvals/webhook"
)

// TestStagesOfAnApprovalAreDelivered: destinations whose events include answered and escalated receive them once
// each, in words for people; others do not.
func TestStagesOfAnApprovalAreDelivered(t *testing.T) {
	t.Parallel()
	posts := make(chan string, 10)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		posts <- r.URL.Path + " " + string(body)
		_, _ = io.WriteString(w, "ok") // an error is the Deliverer's
	}))
	t.Cleanup(web.Close)
	s := open(t, redisstore.Config{})
	k := watching(t, s, approvals.Options{})
	k.SetAnswerRules(anyCall(approvals.AnswerRule{Answers: 2, Escalate: approvals.Escalation{After: time.Millisecond}}))
	var all []*webhook.Deliverer
	for path, kinds := range map[string][]approvals.Kind{
		"/stages": {approvals.EventAnswered, approvals.EventEscalated}, "/asked": nil,
	} {
		d, err := webhook.New(s.Notices(path[1:]), k, nil, webhook.Config{Name: path[1:], URL: web.URL + path,
			Format: webhook.Slack, Events: kinds}, webhook.Options{Poll: 5 * time.Millisecond,
			Tenants: tenants(request("").Tenant)})
		check.Must(t, err)
		all = append(all, d)
	}
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { deliver(ctx, all...) })
	t.Cleanup(func() { stop(); check.Ended(t, &running, "the background work to end") })
	runEscalations(t, approvals.NewEscalations(k, tenants(request("").Tenant)))
	a := ask(t, k, request("{}"))
	got := map[string]int{}
	for range 2 { // pending and escalated, in any order
		got[what(check.Received(t, posts, "a notice"))]++
	}
	if _, err := k.Approve(t.Context(), a.Tenant, a.ID, approvals.Answer{By: "bob", Who: person("bob")}); err != nil {
		t.Fatal(err)
	}
	got[what(check.Received(t, posts, "the notice of an answer"))]++
	want := map[string]int{"/asked Approval needed": 1, "/stages Approval escalated: further groups may answer": 1,
		"/stages Approved in part: more people have to approve": 1}
	for each := range want {
		if got[each] != 1 || len(got) != len(want) {
			t.Errorf("delivered %v, want %v", got, want)
			break
		}
	}
}

// what returns the path of a notice and the title in it.
func what(post string) string {
	path, body, _ := strings.Cut(post, " ")
	for _, title := range []string{"Approval needed", "Approval escalated: further groups may answer",
		"Approved in part: more people have to approve"} {
		if strings.Contains(body, title) {
			return path + " " + title
		}
	}
	return post
}
