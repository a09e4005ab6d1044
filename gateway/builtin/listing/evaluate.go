package listing

import (
	"context"

	"github.com/capgate/capgate/gateway/status"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/paging"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/policy"
	"github.com/capgate/capgate/policy/catalog"
	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
)

// UsableTool is a tool that a caller may use.
type UsableTool struct {
	catalog.Tool
	Verdict call.Verdict // Allow or Ask
}

// evaluated holds what a caller may use of a capability.
type evaluated struct {
	capability *capgatepb.Capability // nil means nothing
	tools      []UsableTool
	empty      emptiness
}

// emptiness is the reason why no tools are listed. Callers only see reasons that mean a missing decision; a call would
// tell them the same.
type emptiness int

const (
	unsaid  emptiness = iota // there are tools, or the caller may use none
	unknown                  // calls by name are possible
	noPolicy
)

func (e emptiness) explain() (reason, notice string) {
	switch e {
	case unknown:
		return "TOOLS_UNKNOWN", "the tools are not known: the capability has no manifest, or has not listed its " +
			"tools yet; calls by name are possible"
	case noPolicy:
		return "NO_POLICY", "all tools are blocked: the capability has no manifest, or has not listed its tools yet, " +
			"and neither the policy of its fleet nor a rule allows calls; give the fleet a manifest or a policy, or " +
			"set a rule with capgate policy set"
	case unsaid:
	}
	return "", ""
}

// evaluate returns the tools of a capability that a caller may use.
func (s *Server) evaluate(ctx context.Context, caller tenant.Identity, id string) (evaluated, error) {
	tools, known := s.tools.Tools(id)
	c := &capgatepb.Capability{Id: id, Name: paging.Name("capabilities", id), Class: s.tools.Class(id).String(),
		ToolsKnown: known}
	if !known { // an empty tool name stands for unknown tools
		switch d, err := s.decide(ctx, caller, id, ""); {
		case err != nil:
			return evaluated{}, err
		case d.Verdict != call.Block:
			return evaluated{capability: c, empty: unknown}, nil
		case d.Level == policy.Default:
			return evaluated{empty: noPolicy}, nil
		}
		return evaluated{}, nil
	}
	var usable []UsableTool
	for _, t := range tools {
		d, err := s.decide(ctx, caller, id, t.Name)
		if err != nil {
			return evaluated{}, err
		}
		if d.Verdict != call.Block {
			usable = append(usable, UsableTool{t, d.Verdict})
			c.Tools = append(c.Tools, t.Name)
		}
	}
	if len(usable) == 0 {
		return evaluated{}, nil
	}
	return evaluated{capability: c, tools: usable}, nil
}

// Usability reports whether a caller may call a tool, perhaps after an approval. The error is a gRPC status.
func (s *Server) Usability(ctx context.Context, caller *tenant.Identity, capability, tool string) (bool, error) {
	d, err := s.decide(ctx, *caller, capability, tool)
	return err == nil && d.Verdict != call.Block, err
}

// May reports whether a caller may call a tool, perhaps after an approval. If the rules are unavailable, it returns
// true, and the call itself decides.
func (s *Server) May(ctx context.Context, caller *tenant.Identity, capability, tool string) bool {
	d, err := s.decide(ctx, *caller, capability, tool)
	return err != nil || d.Verdict != call.Block
}

// Absent reports whether the tools of a capability are known, a tool is not among them, and no rule names it. If the
// rules are unavailable, it returns false, and the call itself decides.
func (s *Server) Absent(ctx context.Context, caller *tenant.Identity, capability, tool string) bool {
	if _, known := s.tools.Tools(capability); !known {
		return false
	}
	named, err := s.decide(ctx, *caller, capability, tool)
	if err != nil {
		return false
	}
	other, err := s.decide(ctx, *caller, capability, "") // no rule names it
	return err == nil && named.Verdict == other.Verdict && named.Level == other.Level
}

// Undiscovered returns the refusal of requests for the tools of a capability, while they are not known.
func (s *Server) Undiscovered(capability string) *call.Refusal {
	if _, known := s.tools.Tools(capability); known {
		return nil
	}
	return refusedUnknown
}

func (s *Server) decide(ctx context.Context, caller tenant.Identity, capability, tool string) (policy.Decision, error) {
	d, refusal := s.fetch(ctx, &caller, capability, tool)
	if refusal != nil {
		return d, status.Answer(refusal).Err()
	}
	return d, nil
}

// fetch decides a call of a tool.
func (s *Server) fetch(ctx context.Context, caller *tenant.Identity, capability, tool string) (policy.Decision,
	*call.Refusal) {
	return s.decider.Fetch(ctx, &call.Call{
		Tenant: caller.Tenant, User: caller.User, Agent: caller.Agent, Method: call.Invoke, Capability: capability,
		Tool: tool,
	})
}
