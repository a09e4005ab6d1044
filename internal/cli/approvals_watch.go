package cli

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"

	"github.com/capgate/capgate/internal/lib/untrusted"
	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
)

// watch prints events until ctx ends. After a disconnection it resumes after the last event.
func (c *approvalsCommand) watch(cmd *cobra.Command, conn grpc.ClientConnInterface, _ []string) error {
	ctx := cmd.Context()
	c.client = capgatepb.NewApprovalsClient(conn)
	req := &capgatepb.WatchApprovalsRequest{Tenant: c.filter.GetTenant()}
	if c.old {
		req.LastEventId = "0"
	}
	return again(ctx, c.err, "capgate approvals watch", func(began func()) error { return c.follow(ctx, req, began) })
}

// follow prints the events after an event, until the gateway ends the stream.
func (c *approvalsCommand) follow(ctx context.Context, req *capgatepb.WatchApprovalsRequest, began func()) error {
	stream, err := c.client.WatchApprovals(ctx, req)
	if err != nil {
		return err
	}
	for {
		e, err := stream.Recv()
		if err != nil {
			return err
		}
		if e.GetId() != "" {
			req.LastEventId = e.GetId()
		}
		switch a := e.GetApproval(); {
		case e.GetEvent() == "began":
			began()
		case a == nil: // missed
			err = c.record(e, func(w io.Writer) {
				fmt.Fprintf(w, "%-8s  earlier events are gone; list shows the current approvals\n", e.GetEvent())
			})
		case c.wants(a):
			err = c.record(e, func(w io.Writer) {
				fmt.Fprintf(w, "%-8s  %s  %s%s\n", e.GetEvent(), a.GetId(), callOf(a), answered(e))
			})
		}
		if err != nil {
			return err // standard output is gone
		}
	}
}

func (c *approvalsCommand) wants(a *capgatepb.Approval) bool {
	f := c.filter
	for _, w := range [][2]string{
		{f.GetUser(), a.GetUser()}, {f.GetAgent(), a.GetAgent()}, {f.GetCapability(), a.GetCapability()},
		{f.GetTool(), a.GetTool()},
	} {
		if w[0] != "" && w[0] != w[1] {
			return false
		}
	}
	return true
}

// answered returns the author of an answer.
func answered(e *capgatepb.WatchApprovalsResponse) string {
	a := e.GetApproval()
	if e.GetEvent() != "approved" && e.GetEvent() != "denied" || a.GetAnsweredBy() == "" {
		return ""
	}
	text := "; by " + untrusted.Word(a.GetAnsweredBy())
	if a.GetComment() != "" {
		text += ": " + untrusted.Word(a.GetComment())
	}
	return text
}
