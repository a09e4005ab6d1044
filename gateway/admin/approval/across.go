package approval

import (
	"context"
	"time"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/paging"
	"github.com/capgate/capgate/policy/approvals"
)

const (
	// tenantsAtOnce is the number of tenants per step of a search.
	tenantsAtOnce = 1000
	// longestID exceeds the length of any approval's id, in bytes.
	longestID = 64
)

var refusedAway = &call.Refusal{Kind: call.Unavailable, Reason: "APPROVALS_UNAVAILABLE", RetryAfter: time.Second,
	Message: "approvals are unavailable at the moment; retry later"}

// list returns a page of a caller's approvals.
func (s *server) list(ctx context.Context, v *caller, f approvals.Filter, after string,
	size int) ([]approvals.Approval, string, error) {
	if !v.all {
		f.Sees = func(capability string) bool { return v.capability(v.tenant, capability) }
		return s.Approvals.List(ctx, v.tenant, f, after, size)
	}
	all := paging.Across[approvals.Approval]{
		List: func(ctx context.Context, owner, after string, most int) ([]approvals.Approval, string, error) {
			f.Sees = func(capability string) bool { return v.capability(owner, capability) }
			return s.Approvals.List(ctx, owner, f, after, most)
		},
		Owners: func(ctx context.Context, after string, most int) ([]string, string, error) {
			ids, next, err := s.tenantsOf(ctx, v, after, most)
			if err == nil {
				ids, err = s.Across.FilterTenants(ctx, ids)
			}
			if err != nil {
				return nil, "", refusedAway
			}
			return ids, next, nil
		},
	}
	return all.Page(ctx, after, size)
}

// tenantsOf returns a sorted page of the tenants that a caller of several tenants sees, as Roster.Page does.
func (s *server) tenantsOf(ctx context.Context, v *caller, after string, most int) ([]string, string, error) {
	if v.only == nil {
		return s.Tenants.Page(ctx, after, most)
	}
	return paging.Among(v.only)(ctx, after, most)
}

// maxCounted bounds the tenants whose approvals are counted for one list.
const maxCounted = 100

// pending returns the number of pending approvals in the tenants of a caller; 0 means that it is unknown.
func (s *server) pending(ctx context.Context, v *caller) (sum int) {
	if s.Pending == nil || v.user != "" || !v.seesAll() {
		return 0
	}
	of := []string{v.tenant}
	if v.all {
		ids, next, err := s.tenantsOf(ctx, v, "", tenantsAtOnce)
		if err == nil {
			ids, err = s.Across.FilterTenants(ctx, ids)
		}
		if of = ids; err != nil || next != "" || len(of) > maxCounted {
			return 0
		}
	}
	for _, id := range of {
		p, err := s.Pending(ctx, id)
		if err != nil {
			return 0
		}
		sum += p.Count
	}
	return sum
}

// resolve narrows a caller of all tenants to the tenant of an approval.
func (s *server) resolve(ctx context.Context, v *caller, id string) error {
	if !v.all {
		return nil
	}
	if id == "" || len(id) > longestID {
		return refusedUnknown
	}
	for after := ""; ; {
		ids, next, err := s.tenantsOf(ctx, v, after, tenantsAtOnce)
		of := ""
		if err == nil && len(ids) > 0 {
			of, err = s.Across.TenantOf(ctx, id, ids)
		}
		switch {
		case err != nil:
			return refusedAway
		case of != "":
			v.at(of)
			return nil
		case next == "":
			return refusedUnknown
		}
		after = next
	}
}
