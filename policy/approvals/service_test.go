package approvals_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/toolschema"
	"github.com/capgate/capgate/policy"
	"github.com/capgate/capgate/policy/approvals"
)

// TestTheHashOfArguments: the hash does not depend on the form of the JSON. Different values have different hashes, as
// do texts that some decoders read differently.
func TestTheHashOfArguments(t *testing.T) {
	t.Parallel()
	k := newKeeper(t, &memory{}, approvals.Options{})
	seen := map[string]int{}
	for i, same := range [][]string{
		{"", " ", "{}", " { }\n"},
		{`{"a":1,"b":[1,2]}`, "{\"b\" :[1, 2],\n\"\\u0061\":1}"},
		// different values by RFC 8785
		{`{"a":1,"b":[2,1]}`}, {`{"a":1}`}, {`{"a":"1"}`}, {`{"A":1}`}, {`[]`}, {`null`}, {`1`}, {`"é"`, `"\u00e9"`},
		{`"e\u0301"`},
		{`9007199254740992`, `9007199254740992`}, {`9007199254740993`}, {`{"a":9007199254740993}`},
		{`{"b":9007199254740993}`},
		{`[9007199254740993,9007199254740992]`}, {`[9007199254740992,9007199254740993]`},
		{`1e21`}, {`1e+21`}, {`1000000000000000000000`}, {`1000000000000000000001`}, {`0.1`}, {`1e-1`}, {`0.10`},
		{`0.1000000000000000055`}, {`0`}, {`-0`}, {`0.0`}, {`-0.0`}, {`0e0`}, {`1.0`}, {`1e0`}, {`1E0`}, {`{"a":-0}`},
		{`{"a":0}`}, {`{"b":[1.0,2]}`}, {`{"b":[1,2.0]}`}, {`{"b":[1,2]}`},
		{`{"a":1,"A":2}`, `{"a" :1, "A": 2}`}, {`{"A":2,"a":1}`}, {`{"x":[{"k":1,"\u212a":2}]}`},
		{`{"x":[{"\u212a":2,"k":1}]}`},
		{`12345678901234567890`},
		{`0.30000000000000004`}, {`3.0000000000000004e-1`}, {`-5`}, {`5`}, {`true`}, {`"true"`},
	} {
		for _, args := range same {
			hash := fmt.Sprintf("%x", ask(t, k, request(args)).ArgsHash)
			if j, ok := seen[hash]; ok && j != i {
				t.Errorf("%s has the hash of list %d", args, j)
			} else if seen[hash] = i; len(seen) != i+1 {
				t.Errorf("%s has a hash of its own", args)
			}
		}
	}
}

// planted is a secret in arguments. It must not appear elsewhere.
const planted = "canary-in-the-arguments"

// TestBadArguments: invalid arguments are rejected, and the error does not repeat them.
func TestBadArguments(t *testing.T) {
	t.Parallel()
	k := newKeeper(t, &memory{}, approvals.Options{})
	unread := []string{"ARGUMENTS_INVALID", "AMBIGUOUS_ARGUMENTS"}
	for _, args := range []string{
		`{`, planted, `"` + planted, `{"` + planted + `":1,"` + planted + `":2}`, `"\ud800` + planted + `"`,
		`{"a":1e400,"` + planted + `":1}`, "\"\xff" + planted + `"`,
		strings.Repeat("[", 101) + strings.Repeat("]", 101), `{} {"` + planted + `":1}`, `{"a":` + planted + `}`,
	} {
		r := request(args)
		_, _, refusal := k.Create(t.Context(), r)
		_, again := k.Redeem(t.Context(), "apr_"+strings.Repeat("A", 26), r)
		for _, got := range []*call.Refusal{refusal, again} {
			if got == nil || got.Kind != call.InvalidArgument || !slices.Contains(unread, got.Reason) ||
				strings.Contains(fmt.Sprint(got.Message, got.Metadata), "canary") {
				t.Errorf("%q: %+v", args, got)
			}
		}
	}
	for _, id := range []string{"", "apr_", "apr_" + strings.Repeat("A", 27), "apr_" + strings.Repeat("a", 26)} {
		if _, refusal := k.Redeem(t.Context(), id, request("{}")); reason(refusal) != "APPROVAL_UNKNOWN" {
			t.Errorf("%q is looked up: %v", id, refusal)
		}
	}
	r := request("{}")
	r.Tool = strings.Repeat("x", 1025)
	if _, _, refusal := k.Create(t.Context(), r); reason(refusal) != "ARGUMENTS_INVALID" || len(refusal.Message) > 200 {
		t.Errorf("a long name: %v", refusal)
	}
	if n := k.Stats().Refused; n["ARGUMENTS_INVALID"] != 11 || n["AMBIGUOUS_ARGUMENTS"] != 10 {
		t.Errorf("%v counted", n)
	}
}

// TestTheStoreIsUnavailable: no call runs, and no approval can be answered.
func TestTheStoreIsUnavailable(t *testing.T) {
	t.Parallel()
	store := &memory{}
	k := newKeeper(t, store, approvals.Options{Rules: &rules{}})
	r := request(`{"a":"` + planted + `"}`)
	a := ask(t, k, r)
	use, refusal := k.Redeem(t.Context(), a.ID, r)
	if refusal != nil {
		t.Fatal(refusal)
	}
	store.leave(true)
	_, _, asked := k.Create(t.Context(), r)
	_, used := k.Redeem(t.Context(), a.ID, r)
	_, got := k.Get(t.Context(), a.Tenant, a.ID)
	_, _, listed := k.List(t.Context(), a.Tenant, approvals.Filter{}, "", 0)
	_, approved := k.Approve(t.Context(), a.Tenant, a.ID, approvals.Answer{})
	_, always := k.Deny(t.Context(), a.Tenant, a.ID, approvals.Answer{Remember: approvals.Always})
	_, waited := k.Wait(check.Context(t), a.Tenant, a.ID)
	for what, err := range map[string]error{
		"ask": asked, "use": used, "get": got, "list": listed, "approve": approved, "always": always, "wait": waited,
		"release": k.Release(t.Context(), use),
	} {
		var r *call.Refusal
		if !errors.As(err, &r) || r.Reason != "APPROVALS_UNAVAILABLE" || r.Kind != call.Unavailable ||
			r.RetryAfter == 0 || strings.Contains(r.Message, "canary") {
			t.Errorf("%s: %v; r %+v", what, err, r)
		}
	}
	if s := k.Stats(); s.Asked != 1 || s.Used != 1 || s.Approved+s.Denied+s.Released != 0 ||
		s.Refused["APPROVALS_UNAVAILABLE"] != 2 {
		t.Errorf("%+v", s)
	}
}

// rules holds the rules that were set.
type rules struct {
	set  []policy.Rule
	fail error
}

func (r *rules) Set(_ context.Context, rule policy.Rule) error {
	if r.fail == nil {
		r.set = append(r.set, rule)
	}
	return r.fail
}

func TestAnAnswerThatHoldsAlways(t *testing.T) {
	t.Parallel()
	set := &rules{}
	k := newKeeper(t, &memory{}, approvals.Options{Rules: set})
	for i, verdict := range []call.Verdict{call.Allow, call.Block} {
		answer := k.Approve
		if verdict == call.Block {
			answer = k.Deny
		}
		a := ask(t, k, request("{}"))
		if _, err := answer(t.Context(), a.Tenant, a.ID,
			approvals.Answer{By: "eve", Remember: approvals.Always}); err != nil {
			t.Fatal(err)
		}
		want := policy.Rule{
			Tenant: "acme", Name: policy.Name{
				User: "ann", Agent: "bot", Capability: "mail", Tool: "send",
			}, Verdict: verdict, By: "eve",
		}
		if len(set.set) != i+1 || set.set[i] != want {
			t.Errorf("%+v", set.set)
		}
		if _, err := answer(t.Context(), a.Tenant, a.ID, approvals.Answer{Remember: approvals.Always}); reason(
			err) != "APPROVAL_NOT_PENDING" || len(set.set) != i+1 {
			t.Errorf("answered twice: %v, %+v", err, set.set)
		}
	}
}

// TestAnAnswerThatCannotHoldAlways: an answer that cannot apply permanently is rejected, so that the approver can give
// another one. If the rule cannot be stored, the answer applies and an error is returned.
func TestAnAnswerThatCannotHoldAlways(t *testing.T) {
	t.Parallel()
	set := &rules{}
	k, without := newKeeper(t, &memory{}, approvals.Options{Rules: set}), newKeeper(t, &memory{}, approvals.Options{})
	for name, test := range map[string]struct {
		keeper *approvals.Service
		change func(*approvals.Request)
	}{
		"no rules":         {without, func(*approvals.Request) {}},
		"no user":          {k, func(r *approvals.Request) { r.User = "" }},
		"every tool":       {k, func(r *approvals.Request) { r.Tool = policy.Any }},
		"no tool":          {k, func(r *approvals.Request) { r.Tool = "" }},
		"every capability": {k, func(r *approvals.Request) { r.Capability = policy.Any }},
		"a backend asks":   {k, func(r *approvals.Request) { r.Level = "engine" }},
	} {
		r := request("{}")
		test.change(r)
		a := ask(t, test.keeper, r)
		_, err := test.keeper.Approve(t.Context(), a.Tenant, a.ID, approvals.Answer{Remember: approvals.Always})
		if got, _ := test.keeper.Get(t.Context(), a.Tenant, a.ID); reason(err) != "APPROVAL_NOT_REMEMBERED" ||
			got.State != approvals.Pending || len(set.set) > 0 {
			t.Errorf("%s: %v, %+v, %+v", name, err, got, set.set)
		}
	}
	changed := newKeeper(t, &memory{}, approvals.Options{
		Rules: set, Current: func(string, string) toolschema.Hash { return toolschema.Hash{9} },
	})
	a := ask(t, changed, request("{}"))
	if _, err := changed.Approve(t.Context(), a.Tenant, a.ID, approvals.Answer{Remember: approvals.Always}); reason(
		err) != "APPROVAL_NOT_REMEMBERED" || len(set.set) > 0 {
		t.Errorf("the tool is another one: %v, %+v", err, set.set)
	}
	if _, err := changed.Deny(t.Context(), a.Tenant, a.ID, approvals.Answer{Remember: approvals.Always}); err != nil ||
		len(set.set) != 1 {
		t.Errorf("the tool is another one, and denied: %v, %+v", err, set.set)
	}
	set.fail = errUnavailable
	a = ask(t, k, request("{}"))
	got, err := k.Approve(t.Context(), a.Tenant, a.ID, approvals.Answer{Remember: approvals.Always})
	var failed *approvals.RuleError
	if !errors.As(err, &failed) || !errors.Is(err, errUnavailable) || got.State != approvals.Approved {
		t.Errorf("%+v, %v", got, err)
	}
}
