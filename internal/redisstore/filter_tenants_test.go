package redisstore_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/paging"
	"github.com/capgate/capgate/internal/redisstore"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/internal/tenant/storetest"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/policy"
	"github.com/capgate/capgate/policy/approvals"
)

// TestAcrossTenants: the data of some of many tenants is found, and pages have neither gaps nor repeats.
func TestAcrossTenants(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		ctx := t.Context()
		s := open()
		roster := &tenant.Roster{Directory: tenant.NewDirectory(nil), Store: s.Tenants()}
		roster.Directory.Replace(map[string]*tenant.Settings{"filed": {ID: "filed"}})
		want := map[string]string{} // tenants by the ids of approvals
		for i := range 9 {
			id := fmt.Sprintf("t%d", i)
			check.Must(t, s.Tenants().CreateTenant(ctx, storetest.Record(id, "u")))
			for n := range i % 3 { // 0, 1 or 2
				d := &approvals.Draft{TTL: time.Minute, MaxOpen: 10}
				d.ID, d.Tenant, d.CallSum[0], d.CallSum[1] = "apr_"+id+strconv.Itoa(n), id, byte(i), byte(n)
				asked, err := s.Approvals().Create(ctx, d)
				check.Must(t, err)
				want[asked.ID] = id
				check.Must(t, s.Policies().Set(ctx, policy.Rule{Tenant: id, Verdict: call.Ask,
					Name: policy.Name{Capability: "c", Tool: strconv.Itoa(n)}}))
			}
		}
		all, _, err := roster.Page(ctx, "", 100)
		if err != nil || len(all) != 10 || all[0] != "filed" {
			t.Fatal(all, err)
		}
		having, err := s.Policies().FilterTenants(ctx, all)
		if err != nil || !slices.Equal(having, []string{"t1", "t2", "t4", "t5", "t7", "t8"}) {
			t.Error(having, err)
		}
		if having, err := s.Policies().Candidates().FilterTenants(ctx, all); err != nil || len(having) != 0 {
			t.Error(having, err)
		}
		for id, of := range want {
			if holder, err := s.Approvals().TenantOf(ctx, id, all); err != nil || holder != of {
				t.Errorf("%s: %q, %v", id, holder, err)
			}
		}
		if holder, err := s.Approvals().TenantOf(ctx, "apr_none", all); err != nil || holder != "" {
			t.Error(holder, err)
		}
		pages := paging.Across[approvals.Record]{
			Owners: func(ctx context.Context, after string, most int) ([]string, string, error) {
				ids, next, err := roster.Page(ctx, after, 4)
				if err == nil {
					ids, err = s.Approvals().FilterTenants(ctx, ids)
				}
				return ids, next, err
			},
			List: func(ctx context.Context, of, after string, most int) ([]approvals.Record, string, error) {
				return s.Approvals().List(ctx, of, approvals.Filter{}, after, most)
			},
		}
		for _, size := range []int{1, 2, 3, 100} {
			got, asked := map[string]string{}, 0
			for after := ""; asked == 0 || after != ""; asked++ {
				page, next, err := pages.Page(ctx, after, size)
				check.Must(t, err)
				if len(page) > size || asked > 30 {
					t.Fatalf("%d in a page of %d, the %dth", len(page), size, asked)
				}
				for i := range page {
					if got[page[i].ID] != "" {
						t.Errorf("%s comes twice", page[i].ID)
					}
					got[page[i].ID] = page[i].Tenant
				}
				after = next
			}
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("pages of %d: %v, want %v", size, got, want)
			}
		}
	})
}
