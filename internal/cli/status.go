package cli

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"github.com/capgate/capgate/gateway/admin/fleets"
	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
)

const statusHelp = `The table has the backends of each fleet: their state with its reason and age, the replica that
probes them, and the calls in flight and the latency that the queried replica measures. With --tenants it
has the tenants with limits and their usage instead. -o json prints the object of GET /v1/fleets or
/v1/limits. --watch repeats the output.`

// statusCommand is capgate status, as the command line describes it.
type statusCommand struct {
	output
	port       *gatewayPort
	capability string // "": all
	tenants    bool   // instead of fleets
}

// newStatusCommand returns the command capgate status.
func newStatusCommand(std stdio) *cobra.Command {
	s := &statusCommand{output: output{stdio: std}}
	c := &cobra.Command{Use: "status [CAPABILITY]", Short: "show the state of a gateway's fleets and backends",
		Long: statusHelp}
	fs := c.Flags()
	s.port = addAdmin(c)
	s.addFlags(fs)
	completeOutput(c)
	fs.BoolVar(&s.tenants, "tenants", false, "show tenants that called recently, and the usage of their limits")
	watch := fs.Bool("watch", false, "repeat until Ctrl-C")
	every := fs.Duration("every", 2*time.Second, "`interval` of --watch")
	c.RunE = func(c *cobra.Command, args []string) error {
		switch {
		case *every <= 0:
			return usageError("--every must be more than 0s")
		case fs.Changed("every") && !*watch:
			return usageError("--every requires --watch")
		case s.tenants && len(args) > 0:
			return usageError("--tenants takes no CAPABILITY")
		}
		if len(args) == 1 {
			s.capability = args[0]
		}
		if !*watch {
			return s.show(c.Context(), s.data)
		}
		if err := s.show(c.Context(), s.record); err != nil {
			return err
		}
		s.watch(c.Context(), *every)
		return nil
	}
	return c
}

// watch shows the fleets until ctx ends, and goes on when the gateway does not answer.
func (s *statusCommand) watch(ctx context.Context, every time.Duration) {
	before := "\n"
	if s.format != tableFormat {
		before = ""
	} else if isTerminal(s.out) {
		before = "\x1b[H\x1b[2J" // from the top of an empty screen
	}
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		err := s.show(ctx, func(v any, text func(io.Writer)) error {
			return s.record(v, func(w io.Writer) {
				fmt.Fprint(w, before)
				text(w)
			})
		})
		if err != nil && ctx.Err() == nil {
			fmt.Fprintf(s.err, "capgate status: %v\n", err)
		}
	}
}

// show queries the gateway once, and prints the answer.
func (s *statusCommand) show(ctx context.Context, print func(v any, text func(io.Writer)) error) error {
	if s.tenants {
		all, err := s.usages(ctx)
		if err != nil {
			return err
		}
		return print(whole{all}, func(w io.Writer) { printTenants(w, all, s.out) })
	}
	all, err := s.fleets(ctx)
	if err != nil {
		return err
	}
	return print(whole{all}, func(w io.Writer) { printFleets(w, all, time.Now(), s.out) })
}

// fleets returns all fleets, or the requested one.
func (s *statusCommand) fleets(ctx context.Context) (*capgatepb.ListFleetsResponse, error) {
	all := new(capgatepb.ListFleetsResponse)
	err := pages(func(token string) (string, error) {
		page := new(capgatepb.ListFleetsResponse)
		query := url.Values{"page_size": {fmt.Sprint(fleets.MaxPage)}, "page_token": {token},
			"capability": {s.capability}}
		err := s.port.do(ctx, http.MethodGet, "/v1/fleets?"+query.Encode(), nil, page)
		all.Gateway, all.TotalSize = page.GetGateway(), page.GetTotalSize()
		all.Fleets = append(all.Fleets, page.GetFleets()...)
		return page.GetNextPageToken(), err
	})
	return all, err
}
