package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"github.com/capgate/capgate/internal/lib/untrusted"
	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
)

const tenantsHelp = `Changes apply at all replicas of a gateway within a second. Tenants of the configuration are listed
too; they are changed there. capgate keys manages the API keys of tenants.`

// tenantsCommand is capgate tenants, as the command line describes it.
type tenantsCommand struct {
	output
	tenant               capgatepb.Tenant
	capabilities, limits string
	force                bool
	days                 int32 // of usage
}

// standardLimits is the value of --limits that selects those of the configuration.
const standardLimits = "default"

// newTenantsCommand returns the command capgate tenants.
func newTenantsCommand(std stdio) *cobra.Command {
	c := &tenantsCommand{output: output{stdio: std}}
	set := overAdmin("set NAME", "change the fields of a tenant that flags name", requestTimeout, c.change,
		c.fieldFlags, c.etagFlag, c.addFlags)
	return parent("tenants", "create, list, change and delete tenants", tenantsHelp,
		overAdmin("list", "list tenants", requestTimeout, c.list, c.addFlags),
		overAdmin("show NAME", "show a tenant", requestTimeout, c.show, c.addFlags),
		overAdmin("create NAME", "create a tenant", requestTimeout, c.create, c.fieldFlags, c.addFlags), set,
		overAdmin("usage NAME", "show the use of a tenant's limits by day", requestTimeout, c.usage, c.daysFlag,
			c.addFlags),
		overAdmin("rm NAME", "delete a tenant", requestTimeout, c.remove, c.forceFlag, c.etagFlag, c.addFlags))
}

func (c *tenantsCommand) fieldFlags(fs *pflag.FlagSet) {
	fs.StringVar(&c.tenant.Name, "name", "", "`name` of the tenant, for people")
	fs.StringVar(&c.capabilities, "capabilities", "",
		"comma-separated `patterns` of the capabilities granted to the tenant; '*': all")
	fs.StringVar(&c.limits, "limits", "",
		"limits as `JSON`: {\"calls_per_second\": 100}; {}: none; default those of the configuration")
	fs.BoolVar(&c.tenant.Disabled, "disabled", false,
		"reject the tenant's calls; --disabled=false accepts them again")
}

func (c *tenantsCommand) etagFlag(fs *pflag.FlagSet) {
	fs.StringVar(&c.tenant.Etag, "etag", "", "only if the tenant has this `etag`, as shown by show")
}

func (c *tenantsCommand) forceFlag(fs *pflag.FlagSet) {
	fs.BoolVar(&c.force, "force", false, "also delete its keys")
}

// take reads the tenant of the line, and returns the fields that flags name.
func (c *tenantsCommand) take(cmd *cobra.Command, args []string) (fields []string, err error) {
	c.tenant.Id, c.tenant.Capabilities = args[0], commas(c.capabilities)
	if c.limits != "" && c.limits != standardLimits {
		c.tenant.Limits = new(capgatepb.Limits)
		if err := protojson.Unmarshal([]byte(c.limits), c.tenant.GetLimits()); err != nil {
			return nil, usageError("--limits: want JSON as in {\"calls_per_second\": 100}: %v", err)
		}
	}
	for _, name := range []string{"name", "capabilities", "limits", "disabled"} {
		if cmd.Flags().Changed(name) {
			fields = append(fields, name)
		}
	}
	return fields, nil
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

func (c *tenantsCommand) create(cmd *cobra.Command, conn grpc.ClientConnInterface, args []string) error {
	if _, err := c.take(cmd, args); err != nil {
		return err
	}
	if !cmd.Flags().Changed("capabilities") {
		return usageError("--capabilities is required: patterns of the granted capabilities; '*' means all")
	}
	r, err := capgatepb.NewTenantsClient(conn).CreateTenant(cmd.Context(),
		&capgatepb.CreateTenantRequest{Tenant: &c.tenant})
	return c.result(r.GetTenant(), err, func(w io.Writer) {
		fmt.Fprintf(w, "created: %s; capgate keys create %[1]s creates an API key\n", r.GetTenant().GetId())
	})
}

func (c *tenantsCommand) change(cmd *cobra.Command, conn grpc.ClientConnInterface, args []string) error {
	fields, err := c.take(cmd, args)
	if err != nil {
		return err
	}
	if len(fields) == 0 {
		return usageError("want --name, --capabilities, --limits or --disabled")
	}
	r, err := capgatepb.NewTenantsClient(conn).UpdateTenant(cmd.Context(),
		&capgatepb.UpdateTenantRequest{Tenant: &c.tenant, UpdateMask: &fieldmaskpb.FieldMask{Paths: fields}})
	return c.printTenant(r.GetTenant(), err)
}

func (c *tenantsCommand) remove(cmd *cobra.Command, conn grpc.ClientConnInterface, args []string) error {
	_, err := capgatepb.NewTenantsClient(conn).DeleteTenant(cmd.Context(),
		&capgatepb.DeleteTenantRequest{TenantId: args[0], Force: c.force, Etag: c.tenant.GetEtag()})
	return c.result(&capgatepb.Tenant{Id: args[0]}, err, func(w io.Writer) { fmt.Fprintf(w, "deleted: %s\n", args[0]) })
}

func (c *tenantsCommand) show(cmd *cobra.Command, conn grpc.ClientConnInterface, args []string) error {
	r, err := capgatepb.NewTenantsClient(conn).GetTenant(cmd.Context(), &capgatepb.GetTenantRequest{TenantId: args[0]})
	return c.printTenant(r.GetTenant(), err)
}

func (c *tenantsCommand) printTenant(t *capgatepb.Tenant, err error) error {
	return c.result(t, err, func(w io.Writer) {
		details(w, [][2]string{
			{"id", t.GetId()}, {"name", untrusted.Word(t.GetName())},
			{"capabilities", orDash(strings.Join(t.GetCapabilities(), ", "))}, {"limits", limitsText(t)},
			{"may call", mayCall(t)}, {"source", t.GetSource()},
			{"created", when(t.GetCreateTime())}, {"changed", when(t.GetUpdateTime())},
			{"changed by", untrusted.Word(t.GetUpdatedBy())}, {"etag", orDash(t.GetEtag())},
		}...)
	})
}

func mayCall(t *capgatepb.Tenant) string {
	if t.GetDisabled() {
		return "no"
	}
	return "yes"
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

func (c *tenantsCommand) list(cmd *cobra.Command, conn grpc.ClientConnInterface, _ []string) error {
	all := new(capgatepb.ListTenantsResponse)
	err := pages(func(token string) (string, error) {
		page, err := capgatepb.NewTenantsClient(conn).ListTenants(cmd.Context(),
			&capgatepb.ListTenantsRequest{PageSize: 1000, PageToken: token})
		all.Tenants = append(all.Tenants, page.GetTenants()...)
		return page.GetNextPageToken(), err
	})
	return c.result(all, err, func(w io.Writer) {
		table := newTable("TENANT", "NAME", "CAPABILITIES", "MAY CALL", "SOURCE", "CHANGED", "CHANGED BY").
			on(c.out, "no tenants", "CHANGED BY", "CHANGED", "SOURCE")
		for _, t := range all.GetTenants() {
			table.row(t.GetId(), t.GetName(), strings.Join(t.GetCapabilities(), ","), mayCall(t), t.GetSource(),
				ageOf(t.GetUpdateTime()), t.GetUpdatedBy())
		}
		table.print(w)
	})
}
