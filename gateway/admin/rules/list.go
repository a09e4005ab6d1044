package rules

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/paging"
	"github.com/capgate/capgate/internal/lib/search"
	"github.com/capgate/capgate/internal/operator"
	"github.com/capgate/capgate/policy"
	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
)

// pages sets the page sizes of lists of rules.
var pages = paging.Bounds{Standard: 100, Most: 1000, Reason: "POLICY_INVALID"}

// ListPolicies implements capgatepb.PoliciesServer.
func (s *server) ListPolicies(ctx context.Context,
	req *capgatepb.ListPoliciesRequest) (*capgatepb.ListPoliciesResponse, error) {
	set, err := s.set(req)
	if err != nil {
		return nil, err
	}
	asked, query, refusal := search.ReadPage(pages, req)
	if refusal != nil {
		return nil, refusal
	}
	var list paging.List[*capgatepb.Policy] = func(ctx context.Context, after string,
		most int) (policies []*capgatepb.Policy, next string, err error) {
		page, err := s.list(ctx, set, req, after, most)
		for i := range page.rules {
			p := policyOf(&page.rules[i], req.GetCandidate())
			p.TenantUnknown = page.unknown
			policies = append(policies, p)
		}
		return policies, page.next, err
	}
	if len(query) > 0 {
		list = paging.Matching(list, func(p *capgatepb.Policy) bool {
			return query.Matches(p.GetTenant(), p.GetUser(), p.GetAgent(), p.GetCapability(), p.GetTool(),
				p.GetPolicy(), p.GetSetBy())
		})
	}
	policies, next, err := list(ctx, asked.After, asked.Size)
	if err != nil {
		return nil, err
	}
	return &capgatepb.ListPoliciesResponse{Policies: policies, NextPageToken: paging.Token(next)}, nil
}

// listed is a page of rules.
type listed struct {
	rules   []policy.Rule
	next    string
	unknown bool // of unknown tenants
}

// unknownTenants is the prefix of positions among the rules of unknown tenants, which follow those of all tenants. No
// tenant's name starts with it.
const unknownTenants = "?"

func (s *server) list(ctx context.Context, set Rules, req *capgatepb.ListPoliciesRequest, after string,
	size int) (page listed, err error) {
	if err := checkTenant(req); err != nil {
		return page, err
	}
	if req.GetGlobal() {
		if err = operator.AllTenants(ctx); err == nil {
			page.rules, page.next, err = set.List(ctx, "", after, size)
		}
		return page, err
	}
	names, err := operator.Tenants(ctx, req.GetTenant())
	switch {
	case err != nil:
		return page, err
	case len(names) == 1:
		return s.listOf(ctx, set, names[0], after, size)
	case names != nil:
		several := paging.Across[policy.Rule]{List: set.List, Owners: paging.Among(names)}
		page.rules, page.next, err = several.Page(ctx, after, size)
		return page, err
	}
	if rest, unknown := strings.CutPrefix(after, unknownTenants); unknown {
		return s.listUnknown(ctx, set, rest, size)
	}
	all := paging.Across[policy.Rule]{List: set.List,
		Owners: func(ctx context.Context, after string, most int) ([]string, string, error) {
			ids, next, err := s.Tenants.Page(ctx, after, most)
			if err == nil && s.FilterTenants != nil {
				ids, err = s.FilterTenants(ctx, ids, req.GetCandidate())
			}
			return ids, next, err
		}}
	if page.rules, page.next, err = all.Page(ctx, after, size); err != nil || page.next != "" {
		return page, err
	}
	others, err := s.unknown(ctx)
	switch {
	case err != nil || len(others) == 0:
		return page, err
	case len(page.rules) == 0:
		return s.listUnknown(ctx, set, "", size)
	}
	page.next = unknownTenants
	return page, nil
}

// listUnknown returns a page of the rules of unknown tenants.
func (s *server) listUnknown(ctx context.Context, set Rules, after string, size int) (page listed, err error) {
	all := paging.Across[policy.Rule]{List: set.List,
		Owners: func(ctx context.Context, after string, _ int) ([]string, string, error) {
			ids, err := s.unknown(ctx)
			from, found := slices.BinarySearch(ids, after)
			if found {
				from++
			}
			return ids[from:], "", err
		}}
	page.unknown = true
	if page.rules, page.next, err = all.Page(ctx, after, size); page.next != "" {
		page.next = unknownTenants + page.next
	}
	return page, err
}

// unknown returns the unknown tenants that have, or had, rules, sorted. There are few: their rules were forced, or the
// tenant was removed from the configuration.
func (s *server) unknown(ctx context.Context) ([]string, error) {
	if s.RuleTenants == nil {
		return nil, nil
	}
	others, err := s.RuleTenants(ctx)
	if err != nil {
		return nil, err
	}
	slices.Sort(others)
	if len(others) > 0 && others[0] == "" { // global rules
		others = others[1:]
	}
	for after := ""; len(others) > 0; {
		var ids []string
		if ids, after, err = s.Tenants.Page(ctx, after, pages.Most); err != nil {
			return nil, err
		}
		others = slices.DeleteFunc(others, func(id string) bool {
			_, known := slices.BinarySearch(ids, id)
			return known
		})
		if after == "" {
			break
		}
	}
	return others, nil
}

// listOf lists the rules of one tenant. Rules of an unknown tenant are listed, so that they can be deleted.
func (s *server) listOf(ctx context.Context, set Rules, name, after string, size int) (page listed, err error) {
	of, err := s.Tenants.Named(ctx, name)
	if err != nil {
		return page, err
	}
	if page.rules, page.next, err = set.List(ctx, of, after, size); err != nil {
		return page, err
	}
	err = s.Tenants.Check(ctx, of)
	var refusal *call.Refusal
	page.unknown = errors.As(err, &refusal) && refusal.Kind == call.NotFound
	if len(page.rules) > 0 || page.next != "" {
		err = nil
	}
	return page, err
}
