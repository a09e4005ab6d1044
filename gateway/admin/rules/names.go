package rules

import (
	"context"
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/capgate/capgate/gateway/admin"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/paging"
	"github.com/capgate/capgate/policy"
)

// maxName is the maximum length of each name of a rule, in bytes.
const maxName = 256

// named is the part of a request that names a rule.
type named interface {
	GetTenant() string
	GetGlobal() bool
	GetUser() string
	GetAgent() string
	GetCapability() string
	GetTool() string
}

// ruleOf returns the rule named by a request, without its verdict.
func (s *server) ruleOf(ctx context.Context, req named) (policy.Rule, error) {
	of, err := s.tenantOf(ctx, req)
	if err != nil {
		return policy.Rule{}, err
	}
	r := policy.Rule{Tenant: of, Name: policy.Name{User: req.GetUser(), Agent: req.GetAgent(),
		Capability: req.GetCapability(), Tool: req.GetTool()}}
	switch {
	case req.GetGlobal() && (r.User != "" || r.Agent != ""):
		return r, invalid("global", "a global rule applies to all callers, so it has neither user nor agent")
	case r.Capability != policy.Any && !call.IsLabel(r.Capability):
		return r, invalid("capability", `it must be a capability's id, or "*" for all`)
	case r.Tool == "":
		return r, invalid("tool", `it must be a tool's name, or "*" for all`)
	}
	for field, v := range map[string]string{"user": r.User, "agent": r.Agent, "tool": r.Tool} {
		if len(v) > maxName || !utf8.ValidString(v) {
			return r, invalid(field, "it must have at most 256 bytes of UTF-8")
		}
	}
	return r, nil
}

// nameOf returns a rule's resource name, which ends with the query that deletes it.
func nameOf(r *policy.Rule, candidate bool) string {
	set := "policies"
	if candidate {
		set = "candidates"
	}
	if r.Tenant != "" {
		set = paging.Name("tenants", r.Tenant, set)
	}
	about := url.Values{"capability": {r.Capability}, "tool": {r.Tool}}
	for name, v := range map[string]string{"user": r.User, "agent": r.Agent} {
		if v != "" {
			about.Set(name, v)
		}
	}
	return set + "/" + strings.ReplaceAll(about.Encode(), "%2A", policy.Any)
}

// tenantOf returns the tenant of a request; empty means global rules.
func (s *server) tenantOf(ctx context.Context, req admin.OfTenant) (string, error) {
	return admin.TenantOf(ctx, s.Tenants, req, pages.Reason)
}

// named returns the tenant that a request must name, or the operator's own.
func (s *server) named(ctx context.Context, name string) (string, error) {
	return admin.TenantNamed(ctx, s.Tenants, name)
}

func checkTenant(req admin.OfTenant) error { return admin.CheckTenant(req, pages.Reason) }

func invalid(field, text string) error { return call.InvalidField("POLICY_INVALID", field, text) }
