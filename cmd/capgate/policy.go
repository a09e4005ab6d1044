package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"google.golang.org/grpc"

	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
)

const policyUsage = `Usage: capgate policy list [flags]
       capgate policy set CAPABILITY TOOL allow|ask|block [flags]
       capgate policy rm CAPABILITY TOOL [flags]
       capgate policy explain CAPABILITY TOOL [flags]

Manages authorization rules, at all replicas of a gateway within a second. CAPABILITY and TOOL
may be '*', except for explain. Of the rules that apply to a call, the most specific one decides:
--user with --agent, --user, --agent, the tenant, all tenants (--global); among these, capability
and tool, capability, tool, neither. Without a rule, the capability's manifest decides, and then
its fleet.

Candidate rules are a second set that decides nothing. explain also shows their decision. With
policies.shadow in the configuration, the gateway counts the decisions that they would change.

In a gateway with tenants, list shows the rules of all tenants, or of --tenant; set, rm and
explain need --tenant or --global. set and explain reject unknown tenants, capabilities and
tools; with --force they accept them, for example to set a rule before its tenant exists. list
marks rules of unknown tenants; rm deletes any rule.

Exit status: 0 on success; 1 if the gateway rejected the request; 2 for a wrong command line;
3 if the gateway could not be reached.

Flags:
`

// policyCommand is capgate policy, as the command line describes it.
type policyCommand struct {
	rule   capgatepb.Policy
	force  bool
	client capgatepb.PoliciesClient
	out    io.Writer
}

func runPolicy(ctx context.Context, args []string, std stdio) int {
	c := policyCommand{out: std.out}
	fs := flag.NewFlagSet("policy", flag.ContinueOnError)
	fs.StringVar(&c.rule.User, "user", "", "`name` of the user of the rule or the call")
	fs.StringVar(&c.rule.Agent, "agent", "", "`name` of the agent of the rule or the call")
	fs.StringVar(&c.rule.Tenant, "tenant", "", "`name` of the tenant; list: default all")
	fs.BoolVar(&c.rule.Global, "global", false, "a rule for all tenants")
	fs.BoolVar(&c.rule.Candidate, "candidate", false, "apply to the candidate rules")
	fs.BoolVar(&c.force, "force", false, "set and explain: accept unknown tenants, capabilities and tools")
	rule := []string{"user", "agent", "tenant", "global", "candidate"}
	all := verbs{
		flags: fs, usage: policyUsage,
		all: []verb{
			{name: "list", run: soon(c.list), takes: rule},
			{name: "set", words: 3, run: soon(c.set), takes: append(rule, "force")},
			{name: "rm", words: 2, run: soon(c.remove), takes: rule},
			{name: "explain", words: 2, run: soon(c.explain), takes: append(rule, "force")},
		},
		take: c.take, dial: func(conn grpc.ClientConnInterface) { c.client = capgatepb.NewPoliciesClient(conn) },
	}
	return all.run(ctx, args, std)
}

func (c *policyCommand) take(verb string, words []string) error {
	if verb == "explain" && c.rule.GetGlobal() {
		return errors.New("explain takes no --global: a call belongs to one tenant")
	}
	for i, to := range []*string{&c.rule.Capability, &c.rule.Tool, &c.rule.Policy} {
		if i < len(words) {
			*to = words[i]
		}
	}
	return nil
}

func (c *policyCommand) set(ctx context.Context) error {
	r, err := c.client.SetPolicy(ctx, &capgatepb.SetPolicyRequest{Policy: &c.rule, Force: c.force})
	if err == nil {
		fmt.Fprintf(c.out, "%s: %s\n", r.GetPolicy().GetPolicy(), about(r.GetPolicy()))
	}
	return err
}

func (c *policyCommand) remove(ctx context.Context) error {
	r := &c.rule
	_, err := c.client.DeletePolicy(ctx, &capgatepb.DeletePolicyRequest{
		Tenant: r.GetTenant(), Global: r.GetGlobal(), User: r.GetUser(), Agent: r.GetAgent(),
		Capability: r.GetCapability(), Tool: r.GetTool(),
		Candidate: r.GetCandidate(),
	})
	if err == nil {
		fmt.Fprintf(c.out, "deleted: %s\n", about(r))
	}
	return err
}

// about describes the calls that a rule applies to.
func about(r *capgatepb.Policy) string {
	text := "calls of " + r.GetTool() + " of " + r.GetCapability()
	for _, who := range []struct{ what, name string }{{" by user ", r.GetUser()}, {" by agent ", r.GetAgent()},
		{", tenant ", r.GetTenant()}} {
		if who.name != "" {
			text += who.what + who.name
		}
	}
	if r.GetGlobal() {
		text += ", all tenants"
	}
	if r.GetCandidate() {
		text += ", as a candidate"
	}
	return text
}

// list prints every rule of a tenant, of all tenants, or the global ones.
func (c *policyCommand) list(ctx context.Context) error {
	table := tabwriter.NewWriter(c.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "USER\tAGENT\tCAPABILITY\tTOOL\tPOLICY\tSET\tBY\tTENANT")
	for token := ""; ; {
		page, err := c.client.ListPolicies(ctx,
			&capgatepb.ListPoliciesRequest{Tenant: c.rule.GetTenant(), Global: c.rule.GetGlobal(),
				Candidate: c.rule.GetCandidate(), PageSize: 1000, PageToken: token})
		if err != nil {
			return err
		}
		for _, r := range page.GetPolicies() {
			if c.rule.GetUser() != "" && r.GetUser() != c.rule.GetUser() ||
				c.rule.GetAgent() != "" && r.GetAgent() != c.rule.GetAgent() {
				continue
			}
			fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", orDash(r.GetUser()), orDash(r.GetAgent()),
				r.GetCapability(), r.GetTool(), r.GetPolicy(),
				r.GetUpdateTime().AsTime().Format(time.RFC3339), orDash(r.GetSetBy()), ruledTenant(r))
		}
		if token = page.GetNextPageToken(); token == "" {
			return table.Flush()
		}
	}
}

// ruledTenant is whose rule it is, and whether there is such a tenant.
func ruledTenant(r *capgatepb.Policy) string {
	if r.GetTenantUnknown() {
		return orAny(r.GetTenant()) + " (unknown tenant)"
	}
	return orAny(r.GetTenant())
}

// explain prints what decides on a call, and every place that was looked at.
func (c *policyCommand) explain(ctx context.Context) error {
	r := &c.rule
	answer, err := c.client.ExplainPolicy(ctx, &capgatepb.ExplainPolicyRequest{
		Tenant: r.GetTenant(), User: r.GetUser(), Agent: r.GetAgent(), Capability: r.GetCapability(), Tool: r.GetTool(),
		Candidate: r.GetCandidate(), Force: c.force,
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(c.out, "%s, by %s\n", answer.GetPolicy(), answer.GetLevel())
	if would := answer.GetCandidatePolicy(); would != "" {
		fmt.Fprintf(c.out, "candidate rules: %s, by %s\n", would, answer.GetCandidateLevel())
	}
	fmt.Fprintln(c.out)
	table := tabwriter.NewWriter(c.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "LEVEL\tUSER\tAGENT\tCAPABILITY\tTOOL\tSAYS")
	for _, l := range answer.GetLooks() {
		says := orDash(l.GetPolicy())
		if l.GetDecided() {
			says += "  <- decides"
		}
		fmt.Fprintln(table, strings.Join([]string{l.GetLevel(), orDash(l.GetUser()), orDash(l.GetAgent()),
			orDash(l.GetCapability()), orDash(l.GetTool()), says}, "\t"))
	}
	return table.Flush()
}
