package ruling

import (
	"context"

	"github.com/capgate/capgate/gateway/paging"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/policy"
	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
)

const (
	defaultPage = 100
	maxPage     = 1000
)

// ListPolicies implements capgatepb.PoliciesServer.
func (s *server) ListPolicies(ctx context.Context, req *capgatepb.ListPoliciesRequest) (*capgatepb.ListPoliciesResponse, error) {
	set, err := s.set(req)
	if err != nil {
		return nil, s.refused(err)
	}
	size, after, refusal := paging.Read(req, defaultPage, maxPage, "POLICY_INVALID")
	if refusal != nil {
		return nil, s.refused(refusal)
	}
	rules, next, err := s.list(ctx, set, req, after, size)
	if err != nil {
		return nil, s.refused(err)
	}
	resp := &capgatepb.ListPoliciesResponse{NextPageToken: paging.Token(next)}
	for i := range rules {
		resp.Policies = append(resp.Policies, policyOf(&rules[i], req.GetCandidate()))
	}
	return resp, nil
}

func (s *server) list(ctx context.Context, set Rules, req *capgatepb.ListPoliciesRequest, after string, size int) (rules []policy.Rule, next string, err error) {
	if err := checkTenant(req); err != nil {
		return nil, "", err
	}
	if req.GetGlobal() {
		return set.List(ctx, "", after, size)
	}
	if s.Tenants == nil || req.GetTenant() != "" && req.GetTenant() != tenant.All {
		return s.listOf(ctx, set, req.GetTenant(), after, size)
	}
	all := paging.Across[policy.Rule]{List: set.List, Owners: func(ctx context.Context, after string, most int) ([]string, string, error) {
		ids, next, err := s.Tenants.Page(ctx, after, most)
		if err == nil {
			ids, err = s.Having(ctx, ids, req.GetCandidate())
		}
		return ids, next, err
	}}
	return all.Page(ctx, after, size)
}

// listOf lists the rules of one tenant. Rules of a tenant that there is not can be seen, to be deleted.
func (s *server) listOf(ctx context.Context, set Rules, name, after string, size int) (rules []policy.Rule, next string, err error) {
	of, err := s.Tenants.Named(ctx, name)
	if err != nil {
		return nil, "", err
	}
	if rules, next, err = set.List(ctx, of, after, size); err == nil && len(rules) == 0 && next == "" {
		err = s.Tenants.Check(ctx, of)
	}
	return rules, next, err
}
