package redisstore_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/capgate/capgate/internal/redisstore"
	"github.com/capgate/capgate/policy/approvals"
)

// TestApprovalsAreOrdered: pages of every order have each approval once, and an approval that ends between two pages
// hides no other.
func TestApprovalsAreOrdered(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		k := service(t, open(), approvals.Options{})
		var all []string
		for i := range 12 {
			all = append(all, ask(t, k, request(fmt.Sprint(`{"n":`, i, `}`))).ID)
		}
		for _, f := range []approvals.Filter{
			{State: approvals.Pending}, {State: approvals.Pending, Order: approvals.Oldest}, {Order: approvals.Oldest},
			{State: approvals.Pending, Order: approvals.Expires},
		} {
			var got []approvals.Approval
			for after, pages := "", 0; pages == 0 || after != ""; pages++ {
				page, next, err := k.List(t.Context(), "ac:{me}%", f, after, 5)
				if err != nil || len(page) > 5 || pages > 4 {
					t.Fatalf("%+v: page %d has %d, %v", f, pages, len(page), err)
				}
				got, after = append(got, page...), next
			}
			ordered := slices.IsSortedFunc(got, func(a, b approvals.Approval) int {
				switch f.Order {
				case approvals.Oldest:
					return a.Created.Compare(b.Created)
				case approvals.Expires:
					return a.Expires.Compare(b.Expires)
				}
				return b.Created.Compare(a.Created)
			})
			var ids []string
			for i := range got {
				ids = append(ids, got[i].ID)
			}
			slices.Sort(ids)
			if want := slices.Sorted(slices.Values(all)); !slices.Equal(ids, want) || !ordered {
				t.Errorf("%+v: %v, ordered %v, want %v", f, ids, ordered, want)
			}
		}
		f := approvals.Filter{State: approvals.Pending, Order: approvals.Oldest}
		first, next, err := k.List(t.Context(), "ac:{me}%", f, "", 5)
		if err != nil || len(first) != 5 {
			t.Fatal(len(first), err)
		}
		approve(t, k, first[4], approvals.Answer{By: "ann"})
		rest, next, err := k.List(t.Context(), "ac:{me}%", f, next, 20)
		if err != nil || len(rest) != 7 || next != "" {
			t.Errorf("%d follow, %q, %v", len(rest), next, err)
		}
	})
}

// TestApprovalsAreSearched: a text is found in the fields that name a call, and nowhere else.
func TestApprovalsAreSearched(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		k := service(t, open(), approvals.Options{})
		r := request(`{"hidden":"needle"}`)
		r.User, r.Agent, r.Tool, r.RequestID = "Ann", "bot-7", "send_mail", "req-Ü9"
		r.Description = "It sends [a] mail"
		a := ask(t, k, r)
		other := request(`{}`)
		other.User = "bob"
		ask(t, k, other)
		for text, want := range map[string]int{"ann": 1, "OT-7": 1, "end_ma": 1, "req-Ü9": 1, "[a]": 1, "%a": 0,
			a.ID: 1, a.ID[:9]: 0, "needle": 0, "": 2, "bob": 1} {
			for _, order := range []approvals.Order{approvals.Newest, approvals.Oldest, approvals.Expires} {
				f := approvals.Filter{State: approvals.Pending, Text: text, Order: order}
				page, next, err := k.List(t.Context(), "ac:{me}%", f, "", 9)
				if err != nil || next != "" || len(page) != want {
					t.Errorf("%q, %v: %d, want %d, %q, %v", text, order, len(page), want, next, err)
				}
			}
		}
	})
}
