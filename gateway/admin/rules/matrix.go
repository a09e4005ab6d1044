package rules

import (
	"context"
	"maps"
	"slices"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/paging"
	"github.com/capgate/capgate/internal/lib/search"
	"github.com/capgate/capgate/policy"
	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
)

const (
	// maxSubjects bounds the callers of a matrix, besides any caller.
	maxSubjects = 49
	// maxRulesRead bounds the rules of a tenant in which callers are searched.
	maxRulesRead = 20_000
)

// matrixPages sets the numbers of tools on a page of a matrix.
var matrixPages = paging.Bounds{Standard: 50, Most: 100, Reason: "POLICY_INVALID"}

// ListDecisions implements capgatepb.PoliciesServer.
func (s *server) ListDecisions(ctx context.Context, req *capgatepb.ListDecisionsRequest) (
	*capgatepb.ListDecisionsResponse, error) {
	of, err := s.named(ctx, req.GetTenant())
	if err == nil {
		err = s.Tenants.Check(ctx, of)
	}
	if err != nil {
		return nil, err
	}
	page, refusal := matrixPages.Read(req)
	if refusal != nil {
		return nil, refusal
	}
	tools, refusal := search.Read(pages.Reason, req.GetQuery())
	if refusal != nil {
		return nil, refusal
	}
	callers, refusal := search.Read(pages.Reason, req.GetCaller())
	if refusal != nil {
		return nil, refusal
	}
	capability := req.GetCapability()
	if !call.IsLabel(capability) {
		return nil, invalid("capability", "it must be a capability's id")
	}
	if err = s.known(ctx, &policy.Rule{Tenant: of, Name: policy.Name{Capability: capability, Tool: policy.Any}},
		""); err != nil {
		return nil, err
	}
	m := matrix{tenant: of, capability: capability, unlisted: map[string]bool{}}
	if err = s.readRules(ctx, &m, callers); err != nil {
		return nil, err
	}
	s.addListed(&m)
	m.tools = slices.DeleteFunc(slices.Sorted(maps.Keys(m.unlisted)), func(t string) bool { return !tools.Matches(t) })
	return s.decisions(ctx, &m, page)
}

// matrix is the tools of a capability, and the callers that rules of a tenant name for them.
type matrix struct {
	tenant, capability string
	unlisted           map[string]bool // by tool: rules name it, and the catalog does not
	tools              []string        // their names in order
	callers            []policy.Subject
	omitted            bool // there may be further callers
}

// readRules adds what the tenant's rules name: the callers that match, and tools.
func (s *server) readRules(ctx context.Context, m *matrix, callers search.Query) error {
	m.callers = []policy.Subject{{Tenant: m.tenant}}
	if s.Rules == nil {
		return nil
	}
	known := map[policy.Subject]bool{m.callers[0]: true}
	for read, after := 0, ""; ; {
		rules, next, err := s.Rules.List(ctx, m.tenant, after, pages.Most)
		if err != nil {
			return err
		}
		for i := range rules {
			n := &rules[i].Name
			if n.Capability != policy.Any && n.Capability != m.capability {
				continue
			}
			if n.Capability == m.capability && n.Tool != policy.Any {
				m.unlisted[n.Tool] = true
			}
			by := policy.Subject{Tenant: m.tenant, User: n.User, Agent: n.Agent}
			switch {
			case known[by] || !callers.Matches(by.User, by.Agent):
			case len(m.callers) > maxSubjects:
				m.omitted = true
			default:
				known[by] = true
				m.callers = append(m.callers, by)
			}
		}
		if read += len(rules); next == "" {
			return nil
		}
		if after = next; read >= maxRulesRead {
			m.omitted = true
			return nil
		}
	}
}

// addListed adds the tools of the catalog.
func (s *server) addListed(m *matrix) {
	if s.Catalog == nil {
		return
	}
	listing, _ := s.Catalog.Inspect(m.capability)
	for i := range listing.Tools {
		m.unlisted[listing.Tools[i].Name] = false
	}
}

// decisions returns a page of a matrix.
func (s *server) decisions(ctx context.Context, m *matrix, page paging.Page) (*capgatepb.ListDecisionsResponse, error) {
	resp := &capgatepb.ListDecisionsResponse{CallersOmitted: m.omitted, Callers: int32(len(m.callers)),
		Tools: int32(len(m.tools))}
	from := slices.IndexFunc(m.tools, func(t string) bool { return t > page.After })
	if from < 0 {
		return resp, nil
	}
	tools := m.tools[from:]
	if len(tools) > page.Size {
		tools = tools[:page.Size]
		resp.NextPageToken = paging.Token(tools[page.Size-1])
	}
	var calls []*call.Call
	for _, t := range tools {
		for _, by := range m.callers {
			calls = append(calls, &call.Call{Tenant: m.tenant, User: by.User, Agent: by.Agent,
				Capability: m.capability, Tool: t})
		}
	}
	var rules policy.Store
	if s.Rules != nil {
		rules = s.Rules
	}
	decided, err := s.Decider.ExplainAll(ctx, calls, rules)
	for i := range decided {
		c := calls[i]
		resp.Decisions = append(resp.Decisions, &capgatepb.ListDecisionsResponse_Decision{Tool: c.Tool, User: c.User,
			Agent: c.Agent, Policy: decided[i].Verdict.String(), Level: decided[i].Level.String(),
			Unlisted: m.unlisted[c.Tool]})
	}
	return resp, err
}
