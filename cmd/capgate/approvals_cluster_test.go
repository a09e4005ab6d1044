package main

import (
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/capgate/capgate/internal/testkit/check"
	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
	docpb "github.com/capgate/capgate/proto/selu/capability"
)

// startAsking runs a cluster of three gateways whose fleet asks about each call; more is
// what else it has, and top are further lines of the configuration.
func startAsking(t *testing.T, more string, top ...string) (c *cluster, callers []docpb.CapabilityClient,
	desks []capgatepb.ApprovalsClient) {
	t.Helper()
	c = startBackends(t, 2)
	config := clusterConfig(c.redis.URL(), time.Second, []string{c.backends[0].addr, c.backends[1].addr})
	lines := append(top, "policies: {}", "public_url: https://gate.example", config)
	c.file = writeConfig(t, strings.Replace(strings.Join(lines, "\n"), "policy: allow", "policy: ask"+more, 1))
	for i := range 3 {
		g := &member{addr: net.JoinHostPort(c.host, strconv.Itoa(20_101+i))}
		c.gateways = append(c.gateways, g)
		c.startGateway(t, g)
	}
	c.wait(t, "all to be up", c.gateways, allUp)
	for _, g := range c.gateways {
		desks = append(desks, desk(t, g.admin))
	}
	return c, clients(t, c.gateways), desks
}

// desk is where people answer, at one gateway.
func desk(t *testing.T, admin string) capgatepb.ApprovalsClient {
	t.Helper()
	conn, err := dialAdmin(admin, "test")
	check.Must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return capgatepb.NewApprovalsClient(conn)
}

func reasonIn(err error) string {
	for _, d := range status.Convert(err).Details() {
		if info, ok := d.(*errdetails.ErrorInfo); ok {
			return info.GetReason()
		}
	}
	return ""
}

// came stops the backends, so that all that they print is here, and says how often calls
// came to them, by their arguments.
func (c *cluster) came(t *testing.T) map[string]int {
	t.Helper()
	all := map[string]int{}
	for _, p := range c.ran {
		p.stop(t)
		deliveries(all, p)
	}
	return all
}

// TestApprovedOnceByAll: of 100 calls at three gateways that use an approval at once, one runs.
func TestApprovedOnceByAll(t *testing.T) {
	t.Parallel()
	c, callers, desks := startAsking(t, "")
	for round := range 5 {
		args := fmt.Sprintf(`"round %d"`, round)
		id := asked(t, callers[round%3], "ann", args)
		_, err := desks[(round+1)%3].Approve(t.Context(), &capgatepb.ApproveRequest{ApprovalId: id})
		check.Must(t, err)
		begin, ends := make(chan struct{}), make(chan string, 100)
		var all sync.WaitGroup
		for i := range 100 {
			all.Go(func() {
				<-begin
				_, err := invokeAs(t, callers[i%3], "ann", args, "x-approval-id", id)
				ends <- status.Code(err).String() + " " + reasonIn(err)
			})
		}
		close(begin)
		all.Wait()
		close(ends)
		count := map[string]int{}
		for end := range ends {
			count[end]++
		}
		if count["OK "] != 1 || count["PermissionDenied APPROVAL_USED"] != 99 {
			t.Errorf("round %d: %v", round, count)
		}
	}
	came := c.came(t)
	for round := range 5 {
		if n := came[fmt.Sprintf("round %d", round)]; n != 1 {
			t.Errorf("round %d: the call came to the backends %d times", round, n)
		}
	}
}

// TestWaitingCallIsResumedByAnotherReplica, as soon as somebody answers there.
func TestWaitingCallIsResumedByAnotherReplica(t *testing.T) {
	t.Parallel()
	c, callers, desks := startAsking(t, "")
	for _, answer := range []string{"approve", "deny", "block"} {
		args := `"waiting to ` + answer + `"`
		stream, err := desks[1].WatchApprovals(t.Context(), &capgatepb.WatchApprovalsRequest{})
		check.Must(t, err)
		_, err = stream.Recv() // where it begins
		check.Must(t, err)
		ended := make(chan error, 1)
		go func() {
			_, err := invokeAs(t, callers[0], "ann", args, "x-approval-wait", "60")
			ended <- err
		}()
		e, err := stream.Recv()
		check.Must(t, err)
		want, reason := codes.OK, ""
		switch id := e.GetApproval().GetId(); answer {
		case "approve":
			_, err = desks[1].Approve(t.Context(), &capgatepb.ApproveRequest{ApprovalId: id})
		case "deny":
			_, err = desks[2].Deny(t.Context(), &capgatepb.DenyRequest{ApprovalId: id})
			want, reason = codes.PermissionDenied, "APPROVAL_DENIED"
		case "block": // and approve: what is blocked while the call waits stays blocked
			if exit, _, errs := capgatePolicy(t, c.gateways[2].admin, "set", "caps", "echo", "block"); exit != 0 {
				t.Fatal(errs)
			}
			until(t, callers[0], "bob", "echo", codes.PermissionDenied)
			_, err = desks[1].Approve(t.Context(), &capgatepb.ApproveRequest{ApprovalId: id})
			want, reason = codes.PermissionDenied, "TOOL_BLOCKED"
		}
		check.Must(t, err)
		err = check.Received(t, ended, "the call to continue after: "+answer)
		if status.Code(err) != want || reasonIn(err) != reason {
			t.Errorf("%s: %v %s", answer, err, reasonIn(err))
		}
	}
	if came := c.came(t); len(came) != 1 || came["waiting to approve"] != 1 {
		t.Errorf("to the backends came %v", came)
	}
}

// TestBlockedMeanwhileStaysBlocked: an approved call whose tool is blocked before it comes
// again does not run, and leaves its approval.
func TestBlockedMeanwhileStaysBlocked(t *testing.T) {
	t.Parallel()
	c, callers, desks := startAsking(t, "")
	args := `"blocked"`
	id := asked(t, callers[0], "ann", args)
	_, err := desks[1].Approve(t.Context(), &capgatepb.ApproveRequest{ApprovalId: id})
	check.Must(t, err)
	if exit, _, errs := capgatePolicy(t, c.gateways[2].admin, "set", "caps", "echo", "block", "--user",
		"ann"); exit != 0 {
		t.Fatal(errs)
	}
	for _, caller := range callers {
		until(t, caller, "ann", "echo", codes.PermissionDenied)
		if _, err := invokeAs(t, caller, "ann", args, "x-approval-id", id); reasonIn(err) != "TOOL_BLOCKED" {
			t.Errorf("%v", err)
		}
	}
	if a, err := desks[0].GetApproval(t.Context(), &capgatepb.GetApprovalRequest{ApprovalId: id}); err != nil ||
		a.GetApproval().GetState() != "approved" {
		t.Errorf("%v, %v", a, err)
	}
	if exit, _, errs := capgatePolicy(t, c.gateways[0].admin, "rm", "caps", "echo", "--user", "ann"); exit != 0 {
		t.Fatal(errs)
	}
	until(t, callers[1], "ann", "echo", codes.FailedPrecondition)
	if _, err := invokeAs(t, callers[1], "ann", args, "x-approval-id", id); err != nil {
		t.Error(err)
	}
	if came := c.came(t); len(came) != 1 || came["blocked"] != 1 {
		t.Errorf("to the backends came %v", came)
	}
}

// TestGatewayDiesBetweenUseAndForward: no approved call runs twice, and none that came to a
// backend leaves its approval unused. Most calls wait for a place at the backends, and so
// after the use of their approval, when their gateway dies.
func TestGatewayDiesBetweenUseAndForward(t *testing.T) {
	t.Parallel()
	c, callers, desks := startAsking(t, ", max_concurrent: 1, queue: {length: 1000, wait: 20s}")
	const calls = 120
	var ids [calls]string
	for i := range ids {
		ids[i] = asked(t, callers[i%3], "ann", killedArgs(i))
		_, err := desks[i%3].Approve(t.Context(), &capgatepb.ApproveRequest{ApprovalId: ids[i]})
		check.Must(t, err)
	}
	stream, err := desks[1].WatchApprovals(t.Context(), &capgatepb.WatchApprovalsRequest{})
	check.Must(t, err)
	_, err = stream.Recv() // where it begins
	check.Must(t, err)
	var all sync.WaitGroup
	for i := range ids {
		for _, caller := range callers {
			all.Go(func() {
				_, _ = invokeAs(t, caller, "ann", killedArgs(i), "x-approval-id", ids[i]) // most fail, in many ways
			})
		}
	}
	for range calls / 3 {
		_, err = stream.Recv() // one is used
		check.Must(t, err)
	}
	c.gateways[0].kill()
	all.Wait()
	delivered, came, used := c.came(t), 0, 0
	for i := range ids {
		a, err := desks[1].GetApproval(t.Context(), &capgatepb.GetApprovalRequest{ApprovalId: ids[i]},
			grpc.WaitForReady(true))
		check.Must(t, err)
		n, isUsed := delivered[strings.Trim(killedArgs(i), `"`)], a.GetApproval().GetState() == "used"
		if n > 1 || n == 1 && !isUsed {
			t.Errorf("call %d came to the backends %d times, its approval is %s", i, n, a.GetApproval().GetState())
		}
		came += n
		if isUsed {
			used++
		}
	}
	t.Logf("%d of %d approvals are used, %d calls came to backends", used, calls, came)
	if used == 0 {
		t.Error("no approval was used")
	}
}

func killedArgs(i int) string { return fmt.Sprintf(`"killed %d"`, i) }
