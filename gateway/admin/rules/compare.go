package rules

import (
	"cmp"
	"context"
	"slices"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/operator"
	"github.com/capgate/capgate/policy"
	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
)

const (
	// maxCompared is the maximum number of decisions per request. Each may read Redis twice.
	maxCompared = 1000
	maxChanges  = 200
)

// Sample is a kind of call with its number of recent calls.
type Sample struct {
	policy.Key
	Calls int
}

// Recent returns the recent calls of a tenant; empty means all tenants.
type Recent func(ctx context.Context, tenant string) []Sample

// ComparePolicies implements capgatepb.PoliciesServer.
func (s *server) ComparePolicies(ctx context.Context,
	req *capgatepb.ComparePoliciesRequest) (*capgatepb.ComparePoliciesResponse, error) {
	if s.Rules == nil {
		return nil, refusedOff
	}
	named, err := operator.Tenant(ctx, req.GetTenant())
	if err == nil {
		named, err = s.Tenants.Read(ctx, named)
	}
	if err != nil {
		return nil, err
	}
	samples := s.samples(ctx, named)
	resp := &capgatepb.ComparePoliciesResponse{Truncated: len(samples) > maxCompared}
	there := map[string]bool{} // by tenant
	for _, sample := range samples[:min(len(samples), maxCompared)] {
		any, known := there[sample.Tenant]
		if !known {
			if any, err = s.anyCandidates(ctx, sample.Tenant); err != nil {
				return nil, err
			}
			there[sample.Tenant] = any
		}
		resp.Compared++
		if !any {
			continue
		}
		resp.Candidates = true
		change, err := s.compare(ctx, &sample)
		if err != nil {
			return nil, err
		}
		switch {
		case change == nil:
		case len(resp.GetChanges()) == maxChanges:
			resp.Truncated = true
		default:
			resp.Changes = append(resp.Changes, change)
		}
	}
	return resp, nil
}

// samples returns the calls to compare, in decreasing order of calls: recent calls, and the known tools of a tenant.
func (s *server) samples(ctx context.Context, tenant string) (all []Sample) {
	if s.Recent != nil {
		all = s.Recent(ctx, tenant)
	}
	slices.SortStableFunc(all, func(a, b Sample) int { return cmp.Compare(b.Calls, a.Calls) })
	if tenant == "" || s.Catalog == nil {
		return all
	}
	for _, id := range s.Catalog.Capabilities() {
		listing, _ := s.Catalog.Inspect(id)
		for i := range listing.Tools {
			key := policy.Key{Subject: policy.Subject{Tenant: tenant}, Capability: id, Tool: listing.Tools[i].Name}
			if !slices.ContainsFunc(all, func(other Sample) bool { return other.Key == key }) {
				all = append(all, Sample{Key: key})
			}
			if len(all) > maxCompared {
				return all
			}
		}
	}
	return all
}

// compare returns how the candidates would change a decision; nil means they would not.
func (s *server) compare(ctx context.Context, of *Sample) (*capgatepb.ComparePoliciesResponse_PolicyChange, error) {
	c := &call.Call{Tenant: of.Tenant, User: of.User, Agent: of.Agent, Capability: of.Capability, Tool: of.Tool,
		Method: call.Invoke}
	now, _, err := s.Decider.Explain(ctx, c, s.Rules)
	if err != nil {
		return nil, err
	}
	then, _, err := s.Decider.Explain(ctx, c, s.Rules, s.Candidates)
	if err != nil || then.Verdict == now.Verdict {
		return nil, err
	}
	return &capgatepb.ComparePoliciesResponse_PolicyChange{
		Tenant: c.Tenant, User: c.User, Agent: c.Agent, Capability: c.Capability, Tool: c.Tool,
		Policy: now.Verdict.String(), Level: now.Level.String(),
		CandidatePolicy: then.Verdict.String(), CandidateLevel: then.Level.String(), Calls: int32(of.Calls),
	}, nil
}
