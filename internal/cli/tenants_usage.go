package cli

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"google.golang.org/grpc"

	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
)

func (c *tenantsCommand) daysFlag(fs *pflag.FlagSet) {
	fs.Int32Var(&c.days, "days", 7, "number of `days`, today (UTC) included; at most 30")
}

// usage shows the use of a tenant's limits on the last days.
func (c *tenantsCommand) usage(cmd *cobra.Command, conn grpc.ClientConnInterface, args []string) error {
	all, err := capgatepb.NewUsageClient(conn).ListDailyUsage(cmd.Context(),
		&capgatepb.ListDailyUsageRequest{TenantId: args[0], Days: c.days})
	return c.result(all, err, func(w io.Writer) {
		for _, u := range all.GetNear() {
			fmt.Fprintf(w, "near its limit: %s%s, %.0f of %.0f in %s\n", u.GetLimit(), limitedCalls(u), u.GetUsed(),
				u.GetMax(), u.GetDate())
		}
		if len(all.GetDays()) == 0 {
			fmt.Fprintf(w, "no limit of %s was used in the last %s\n", args[0], count(int(c.days), "day"))
			return
		}
		table := newTable("DATE", "LIMIT", "APPLIES TO", "USED", "MAX", "SHARE").on(c.out, "")
		for _, u := range all.GetDays() {
			table.row(u.GetDate(), u.GetLimit(), limitOf(&capgatepb.LimitInUse{Per: u.GetPer(),
				Capability: u.GetCapability(), Tool: u.GetTool()}), fmt.Sprintf("%.0f", u.GetUsed()),
				fmt.Sprintf("%.0f", u.GetMax()), fmt.Sprintf("%.0f%%", 100*u.GetUsed()/max(u.GetMax(), 1)))
		}
		table.print(w)
	})
}

// limitedCalls describes the calls of a limit after its name.
func limitedCalls(u *capgatepb.DailyUse) string {
	of := limitOf(&capgatepb.LimitInUse{Per: u.GetPer(), Capability: u.GetCapability(), Tool: u.GetTool()})
	if of == "-" {
		return ""
	}
	return " of " + of
}
