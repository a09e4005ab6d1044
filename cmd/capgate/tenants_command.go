package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"github.com/capgate/capgate/gateway"
	"github.com/capgate/capgate/gateway/admin/tenants"
	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
)

// newTenantsAPI creates the service of tenants and API keys.
func (p *process) newTenantsAPI() {
	cfg := tenants.Config{
		Tenants: p.auth.directory, Roster: p.auth.roster, Keys: p.auth.keys, Log: p.log, Audit: p.audit,
		Status: gateway.GRPCStatus,
		Pepper: p.auth.pepper,
	}
	if p.auth.stored != nil {
		cfg.Store, cfg.Changed = p.store.Tenants(), p.auth.stored.Changed
	}
	p.tenantsAPI = tenants.New(cfg)
}

const tenantsUsage = `Usage: capgate tenants list [flags]
       capgate tenants show ID [flags]
       capgate tenants create ID --capabilities PATTERN,… [flags]
       capgate tenants set ID [flags]
       capgate tenants rm ID [--force] [flags]

Manages tenants, at all replicas of a gateway within a second. Tenants of the configuration are
listed too, but can be changed only there. set changes the fields of the given flags. capgate
keys manages the API keys of tenants.

Exit status: 0 on success; 1 if the gateway rejected the request; 2 for a wrong command line;
3 if the gateway could not be reached.

Flags:
`

// tenantsCommand is capgate tenants, as the command line describes it.
type tenantsCommand struct {
	tenant               capgatepb.Tenant
	capabilities, limits string
	force                bool
	set                  []string // fields that the command line names
	flags                *flag.FlagSet
	client               capgatepb.TenantsClient
	out                  io.Writer
}

// standardLimits is what --limits takes for those of the configuration.
const standardLimits = "default"

func runTenants(ctx context.Context, args []string, std stdio) int {
	c := tenantsCommand{out: std.out, flags: flag.NewFlagSet("tenants", flag.ContinueOnError)}
	c.flags.StringVar(&c.tenant.Name, "name", "", "`name` of the tenant, for people")
	c.flags.StringVar(&c.capabilities, "capabilities", "",
		"comma-separated `patterns` of the capabilities granted to the tenant; '*': all")
	c.flags.StringVar(&c.limits, "limits", "",
		"limits as `JSON`: {\"calls_per_second\": 100}; {}: none; default those of the configuration")
	c.flags.BoolVar(&c.tenant.Disabled, "disabled", false,
		"reject the tenant's calls; --disabled=false accepts them again")
	c.flags.StringVar(&c.tenant.Etag, "etag", "", "set and rm: only if the tenant has this `etag`, as shown by show")
	c.flags.BoolVar(&c.force, "force", false, "rm: also delete its keys")
	settable := []string{"name", "capabilities", "limits", "disabled"}
	all := verbs{
		flags: c.flags, usage: tenantsUsage,
		all: []verb{
			{name: "list", run: soon(c.list)},
			{name: "show", words: 1, run: soon(c.show)},
			{name: "create", words: 1, run: soon(c.create), takes: settable},
			{name: "set", words: 1, run: soon(c.change), takes: append(settable, "etag")},
			{name: "rm", words: 1, run: soon(c.remove), takes: []string{"force", "etag"}},
		},
		take: c.take, dial: func(conn grpc.ClientConnInterface) { c.client = capgatepb.NewTenantsClient(conn) },
	}
	return all.run(ctx, args, std)
}

func (c *tenantsCommand) take(verb string, words []string) error {
	if len(words) > 0 {
		c.tenant.Id = words[0]
	}
	c.tenant.Capabilities = commas(c.capabilities)
	if c.limits != "" && c.limits != standardLimits {
		c.tenant.Limits = new(capgatepb.Limits)
		if err := protojson.Unmarshal([]byte(c.limits), c.tenant.GetLimits()); err != nil {
			return fmt.Errorf("--limits: want JSON as in {\"calls_per_second\": 100}: %w", err)
		}
	}
	for _, name := range []string{"name", "capabilities", "limits", "disabled"} {
		if given(c.flags, name) {
			c.set = append(c.set, name)
		}
	}
	switch {
	case verb == "create" && !given(c.flags, "capabilities"):
		return errors.New("--capabilities is required: patterns of the granted capabilities; '*' is all")
	case verb == "set" && len(c.set) == 0:
		return errors.New("want --name, --capabilities, --limits or --disabled")
	}
	return nil
}

// commas takes a list apart.
func commas(text string) (words []string) {
	for word := range strings.SplitSeq(text, ",") {
		if word = strings.TrimSpace(word); word != "" {
			words = append(words, word)
		}
	}
	return words
}

func (c *tenantsCommand) create(ctx context.Context) error {
	r, err := c.client.CreateTenant(ctx, &capgatepb.CreateTenantRequest{Tenant: &c.tenant})
	if err == nil {
		fmt.Fprintf(c.out, "created: %s; capgate keys create %[1]s creates an API key\n", r.GetTenant().GetId())
	}
	return err
}

func (c *tenantsCommand) change(ctx context.Context) error {
	r, err := c.client.UpdateTenant(ctx,
		&capgatepb.UpdateTenantRequest{Tenant: &c.tenant, UpdateMask: &fieldmaskpb.FieldMask{Paths: c.set}})
	if err == nil {
		c.print(r.GetTenant())
	}
	return err
}

func (c *tenantsCommand) remove(ctx context.Context) error {
	_, err := c.client.DeleteTenant(ctx,
		&capgatepb.DeleteTenantRequest{TenantId: c.tenant.GetId(), Force: c.force, Etag: c.tenant.GetEtag()})
	if err == nil {
		fmt.Fprintf(c.out, "deleted: %s\n", c.tenant.GetId())
	}
	return err
}

func (c *tenantsCommand) show(ctx context.Context) error {
	r, err := c.client.GetTenant(ctx, &capgatepb.GetTenantRequest{TenantId: c.tenant.GetId()})
	if err == nil {
		c.print(r.GetTenant())
	}
	return err
}

func (c *tenantsCommand) print(t *capgatepb.Tenant) {
	for _, line := range [][2]string{
		{"id", t.GetId()}, {"name", word(t.GetName())},
		{"capabilities", orDash(strings.Join(t.GetCapabilities(), ", "))}, {"limits", limitsText(t)},
		{"may call", map[bool]string{false: "yes", true: "no"}[t.GetDisabled()]}, {"stored in", t.GetSource()},
		{"made", when(t.GetCreateTime())}, {"changed", when(t.GetUpdateTime())}, {"etag", orDash(t.GetEtag())},
	} {
		fmt.Fprintf(c.out, "%-12s %s\n", line[0], line[1])
	}
}

func limitsText(t *capgatepb.Tenant) string {
	if t.GetLimits() == nil {
		return "those of the configuration"
	}
	text, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(t.GetLimits())
	if err != nil {
		return err.Error()
	}
	return strings.ReplaceAll(string(text), " ", "") // protojson varies them; no name has one
}

func (c *tenantsCommand) list(ctx context.Context) error {
	table := tabwriter.NewWriter(c.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "ID\tNAME\tCAPABILITIES\tMAY CALL\tKEPT IN\tCHANGED")
	for token := ""; ; {
		page, err := c.client.ListTenants(ctx, &capgatepb.ListTenantsRequest{PageSize: 1000, PageToken: token})
		if err != nil {
			return err
		}
		for _, t := range page.GetTenants() {
			may := "yes"
			if t.GetDisabled() {
				may = "no"
			}
			fmt.Fprintln(table, strings.Join([]string{t.GetId(), word(t.GetName()),
				orDash(strings.Join(t.GetCapabilities(), ",")), may, t.GetSource(), when(t.GetUpdateTime())}, "\t"))
		}
		if token = page.GetNextPageToken(); token == "" {
			return table.Flush()
		}
	}
}
