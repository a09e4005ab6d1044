package cli

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"google.golang.org/grpc"

	"github.com/capgate/capgate/internal/lib/untrusted"
	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
)

const policyHelp = `Rules apply at all replicas of a gateway within a second. CAPABILITY and TOOL may be '*', except for
explain. Of the rules that apply to a call, the most specific one decides: --user with --agent,
--user, --agent, the tenant, all tenants (--global); among these, capability and tool, capability,
tool, neither. Without a rule, the capability's manifest decides, and then its fleet.

Candidate rules are a second set that decides nothing. explain also shows the decision after all of
them are put in effect: each in the place of the rule with its subject, beside all other rules. With
policies.shadow in the configuration, the gateway counts the decisions that they would change.

In a gateway with tenants, list shows the rules of all tenants, or of --tenant; set, rm and
explain need --tenant or --global. set and explain reject unknown tenants, capabilities and
tools; with --force they accept them, for example to set a rule before its tenant exists. list
marks rules of unknown tenants; rm deletes any rule.`

// policyCommand is capgate policy, as the command line describes it.
type policyCommand struct {
	output
	rule  capgatepb.Policy
	force bool
}

// newPolicyCommand returns the command capgate policy.
func newPolicyCommand(std stdio) *cobra.Command {
	c := &policyCommand{output: output{stdio: std}}
	return parent("policy", "set, list, delete and explain authorization rules", policyHelp,
		overAdmin("list", "list rules", requestTimeout, c.list, c.callFlags, c.globalFlag, c.addFlags),
		overAdmin("set CAPABILITY TOOL allow|ask|block", "set a rule", requestTimeout, c.set, c.callFlags, c.globalFlag,
			c.forceFlag, c.addFlags),
		overAdmin("rm CAPABILITY TOOL", "delete a rule", requestTimeout, c.remove, c.callFlags, c.globalFlag,
			c.addFlags),
		overAdmin("explain CAPABILITY TOOL", "show what decides on a call, and every rule that was looked at",
			requestTimeout, c.explain, c.callFlags, c.forceFlag, c.addFlags),
		newPolicyMatrix(std),
		overAdmin("accept-loss", "decide by the rules that Redis has, after it has lost rules", requestTimeout,
			c.acceptLoss, c.addFlags))
}

func (c *policyCommand) callFlags(fs *pflag.FlagSet) {
	fs.StringVar(&c.rule.User, "user", "", "`name` of the user of the rule or the call")
	fs.StringVar(&c.rule.Agent, "agent", "", "`name` of the agent of the rule or the call")
	fs.StringVar(&c.rule.Tenant, "tenant", "", "`name` of the tenant; list: default all")
	fs.BoolVar(&c.rule.Candidate, "candidate", false, "apply to the candidate rules")
}

func (c *policyCommand) globalFlag(fs *pflag.FlagSet) {
	fs.BoolVar(&c.rule.Global, "global", false, "a rule for all tenants")
}

func (c *policyCommand) forceFlag(fs *pflag.FlagSet) {
	fs.BoolVar(&c.force, "force", false, "accept unknown tenants, capabilities and tools")
}

func (c *policyCommand) set(cmd *cobra.Command, conn grpc.ClientConnInterface, args []string) error {
	c.rule.Capability, c.rule.Tool, c.rule.Policy = args[0], args[1], args[2]
	r, err := capgatepb.NewPoliciesClient(conn).SetPolicy(cmd.Context(),
		&capgatepb.SetPolicyRequest{Policy: &c.rule, Force: c.force})
	return c.result(r.GetPolicy(), err, func(w io.Writer) {
		fmt.Fprintf(w, "%s: %s\n", r.GetPolicy().GetPolicy(), about(r.GetPolicy()))
	})
}

func (c *policyCommand) remove(cmd *cobra.Command, conn grpc.ClientConnInterface, args []string) error {
	r := &c.rule
	r.Capability, r.Tool = args[0], args[1]
	_, err := capgatepb.NewPoliciesClient(conn).DeletePolicy(cmd.Context(), &capgatepb.DeletePolicyRequest{
		Tenant: r.GetTenant(), Global: r.GetGlobal(), User: r.GetUser(), Agent: r.GetAgent(),
		Capability: r.GetCapability(), Tool: r.GetTool(),
		Candidate: r.GetCandidate(),
	})
	return c.result(r, err, func(w io.Writer) { fmt.Fprintf(w, "deleted: %s\n", about(r)) })
}

func (c *policyCommand) acceptLoss(cmd *cobra.Command, conn grpc.ClientConnInterface, _ []string) error {
	r, err := capgatepb.NewPoliciesClient(conn).AcceptLoss(cmd.Context(), new(capgatepb.AcceptLossRequest))
	return c.result(r, err, func(w io.Writer) {
		fmt.Fprintln(w, "accepted: calls are decided by the rules that Redis has now")
	})
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
func (c *policyCommand) list(cmd *cobra.Command, conn grpc.ClientConnInterface, _ []string) error {
	all := new(capgatepb.ListPoliciesResponse)
	err := pages(func(token string) (string, error) {
		page, err := capgatepb.NewPoliciesClient(conn).ListPolicies(cmd.Context(),
			&capgatepb.ListPoliciesRequest{Tenant: c.rule.GetTenant(), Global: c.rule.GetGlobal(),
				Candidate: c.rule.GetCandidate(), PageSize: 1000, PageToken: token})
		for _, r := range page.GetPolicies() {
			if c.wants(r) {
				all.Policies = append(all.Policies, r)
			}
		}
		return page.GetNextPageToken(), err
	})
	return c.result(all, err, func(w io.Writer) {
		t := newTable("USER", "AGENT", "CAPABILITY", "TOOL", "POLICY", "AGE", "SET BY", "TENANT").
			on(c.out, "no rules", "SET BY", "AGE")
		for _, r := range all.GetPolicies() {
			t.row(r.GetUser(), r.GetAgent(), r.GetCapability(), r.GetTool(), verdictOf(r), ageOf(r.GetUpdateTime()),
				r.GetSetBy(), ruledTenant(r))
		}
		t.print(w)
	})
}

// verdictOf returns a rule's verdict, with its end.
func verdictOf(r *capgatepb.Policy) string {
	if r.GetExpireTime() == nil {
		return r.GetPolicy()
	}
	return r.GetPolicy() + " until " + when(r.GetExpireTime())
}

// wants reports whether a rule is for the user and agent of the flags.
func (c *policyCommand) wants(r *capgatepb.Policy) bool {
	return (c.rule.GetUser() == "" || r.GetUser() == c.rule.GetUser()) &&
		(c.rule.GetAgent() == "" || r.GetAgent() == c.rule.GetAgent())
}

// ruledTenant names the tenant of a rule, and says if it does not exist.
func ruledTenant(r *capgatepb.Policy) string {
	if r.GetTenantUnknown() {
		return orAny(r.GetTenant()) + " (unknown tenant)"
	}
	return orAny(r.GetTenant())
}

// explain prints what decides on a call, and every place that was looked at.
func (c *policyCommand) explain(cmd *cobra.Command, conn grpc.ClientConnInterface, args []string) error {
	r := &c.rule
	answer, err := capgatepb.NewPoliciesClient(conn).ExplainPolicy(cmd.Context(), &capgatepb.ExplainPolicyRequest{
		Tenant: r.GetTenant(), User: r.GetUser(), Agent: r.GetAgent(), Capability: args[0], Tool: args[1],
		Candidate: r.GetCandidate(), Force: c.force,
	})
	return c.result(answer, err, func(w io.Writer) {
		fmt.Fprintf(w, "%s, by %s\n", answer.GetPolicy(), answer.GetLevel())
		if text := answer.GetUnknown(); text != "" {
			fmt.Fprintf(w, "but %s\n", untrusted.Word(text))
		}
		if who := answer.GetApprovers(); who != "" {
			fmt.Fprintf(w, "approvals: %s\n", who)
		}
		if would := answer.GetCandidatePolicy(); would != "" {
			fmt.Fprintf(w, "candidate rules: %s, by %s\n", would, answer.GetCandidateLevel())
		}
		fmt.Fprintln(w)
		t := newTable("LEVEL", "USER", "AGENT", "CAPABILITY", "TOOL", "POLICY").on(c.out, "")
		for _, l := range answer.GetLooks() {
			says := orDash(l.GetPolicy())
			if l.GetDecided() {
				says += " <- decides"
			}
			t.row(l.GetLevel(), l.GetUser(), l.GetAgent(), l.GetCapability(), l.GetTool(), says)
		}
		t.print(w)
	})
}
