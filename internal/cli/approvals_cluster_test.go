package cli

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/clienttest"
	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
	docpb "github.com/capgate/capgate/proto/selu/capability"
)

// startAsking runs a cluster of three gateways whose fleet requires approval for each call. more is added to
// the fleet, and top to the configuration.
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

// desk answers approvals at one gateway.
func desk(t *testing.T, admin string) capgatepb.ApprovalsClient {
	t.Helper()
	conn, err := dialAdmin(admin)
	check.Must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return capgatepb.NewApprovalsClient(conn)
}

// came stops the backends, so that all their output is available, and returns the number of calls by their arguments.
func (c *cluster) came(t *testing.T) map[string]int {
	t.Helper()
	all := map[string]int{}
	for _, p := range c.ran {
		p.stop(t)
		deliveries(all, p)
	}
	return all
}

// nextIn returns the id of the next event's approval that is in a state. Events of earlier calls may be late.
func nextIn(t *testing.T, events grpc.ServerStreamingClient[capgatepb.WatchApprovalsResponse],
	state string) (id string) {
	t.Helper()
	for {
		e, err := events.Recv()
		check.Must(t, err)
		if e.GetApproval().GetState() == state {
			return e.GetApproval().GetId()
		}
	}
}

// TestApprovedOnceByAll: of 100 concurrent calls at three gateways with the same approval, one runs.
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
				ends <- status.Code(err).String() + " " + clienttest.Reason(err)
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
			t.Errorf("round %d: the backends got the call %d times", round, n)
		}
	}
}

// TestWaitingCallIsResumedByAnotherReplica: a held call continues as soon as it is approved at another replica.
func TestWaitingCallIsResumedByAnotherReplica(t *testing.T) {
	t.Parallel()
	c, callers, desks := startAsking(t, "")
	for _, answer := range []string{"approve", "deny", "block"} {
		args := `"waiting to ` + answer + `"`
		stream, err := desks[1].WatchApprovals(t.Context(), &capgatepb.WatchApprovalsRequest{})
		check.Must(t, err)
		_, err = stream.Recv() // its first attempt
		check.Must(t, err)
		ended := make(chan error, 1)
		go func() {
			_, err := invokeAs(t, callers[0], "ann", args, "x-approval-wait", "60")
			ended <- err
		}()
		id, want, reason := nextIn(t, stream, "pending"), codes.OK, ""
		switch answer {
		case "approve":
			_, err = desks[1].Approve(t.Context(), &capgatepb.ApproveRequest{ApprovalId: id})
		case "deny":
			_, err = desks[2].Deny(t.Context(), &capgatepb.DenyRequest{ApprovalId: id})
			want, reason = codes.PermissionDenied, "APPROVAL_DENIED"
		case "block": // and approve: a tool that is blocked while the call waits stays blocked
			if exit, _, errs := capgatePolicy(t, c.gateways[2].admin, "set", "caps", "echo", "block"); exit != 0 {
				t.Fatal(errs)
			}
			until(t, callers[0], "bob", "echo", codes.PermissionDenied)
			_, err = desks[1].Approve(t.Context(), &capgatepb.ApproveRequest{ApprovalId: id})
			want, reason = codes.PermissionDenied, "TOOL_BLOCKED"
		}
		check.Must(t, err)
		err = check.Received(t, ended, "the call to continue after: "+answer)
		if status.Code(err) != want || clienttest.Reason(err) != reason {
			t.Errorf("%s: %v %s", answer, err, clienttest.Reason(err))
		}
	}
	if came := c.came(t); len(came) != 1 || came["waiting to approve"] != 1 {
		t.Errorf("the backends got %v", came)
	}
}

// TestBlockedMeanwhileStaysBlocked: an approved call whose tool is blocked before it is repeated does not run
// and keeps its approval.
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
		if _, err := invokeAs(t, caller, "ann", args, "x-approval-id", id); clienttest.Reason(err) != "TOOL_BLOCKED" {
			t.Errorf("got %v", err)
		}
	}
	if a, err := desks[0].GetApproval(t.Context(), &capgatepb.GetApprovalRequest{ApprovalId: id}); err != nil ||
		a.GetApproval().GetState() != "approved" {
		t.Errorf("got %v, %v", a, err)
	}
	if exit, _, errs := capgatePolicy(t, c.gateways[0].admin, "rm", "caps", "echo", "--user", "ann"); exit != 0 {
		t.Fatal(errs)
	}
	until(t, callers[1], "ann", "echo", codes.FailedPrecondition)
	if _, err := invokeAs(t, callers[1], "ann", args, "x-approval-id", id); err != nil {
		t.Error(err)
	}
	if came := c.came(t); len(came) != 1 || came["blocked"] != 1 {
		t.Errorf("the backends got %v", came)
	}
}

// TestGatewayDiesBetweenUseAndForward: an approved call can be lost only with its gateway, and never runs
// twice.
func TestGatewayDiesBetweenUseAndForward(t *testing.T) {
	t.Parallel()
	const some = killedCalls / 3
	for name, test := range map[string]struct {
		kill func(*dyingGateway)
		lost int // at least
	}{
		"calls wait": {func(d *dyingGateway) {
			leave := d.hold(t)
			defer leave()
			d.begin(t, 0, some, 0) // which uses their approvals
			d.begin(t, 2*some, killedCalls, 1)
			d.waitUsed(t, 2*some)
			d.begin(t, 0, some, 1, 2)
			d.begin(t, some, 2*some, 0, 1, 2)
			d.begin(t, 2*some, killedCalls, 0, 2)
			d.waitUsed(t, some)
			check.Until(t, "calls to wait at the gateway", func() (bool, string) {
				n := int(d.waiting(t, d.gateways[0]))
				return n >= some, fmt.Sprintf("%d wait", n)
			})
			d.gateways[0].kill()
		}, some},
		"calls run": {func(d *dyingGateway) {
			d.begin(t, 0, killedCalls, 0, 1, 2)
			d.waitUsed(t, some)
			d.gateways[0].kill()
		}, 0},
	} {
		d := startDying(t)
		test.kill(d)
		d.calling.Wait()
		if lost := d.verify(t, name); lost < test.lost {
			t.Errorf("%s: %d calls were lost between the use of their approvals and a backend, want %d", name, lost,
				test.lost)
		}
	}
}

// killedCalls is the number of approved calls that a dyingGateway receives. One gateway may have all of them wait, and
// the queue has 100 places, those of the calls of hold included.
const killedCalls = 90

// dyingGateway is a cluster whose gateways receive the same approved calls. The first gateway is to be killed.
type dyingGateway struct {
	*cluster
	callers []docpb.CapabilityClient
	desks   []capgatepb.ApprovalsClient
	events  grpc.ServerStreamingClient[capgatepb.WatchApprovalsResponse]
	used    map[string]bool // ids that events had
	ids     [killedCalls]string
	ends    [killedCalls][3]error // by the gateway
	calling sync.WaitGroup
}

func startDying(t *testing.T) *dyingGateway {
	t.Helper()
	d := &dyingGateway{used: map[string]bool{}}
	d.cluster, d.callers, d.desks = startAsking(t, ", max_concurrent: 1, queue: {wait: 30s}")
	for i := range d.ids {
		d.ids[i] = asked(t, d.callers[i%3], "ann", killedArgs(i))
		_, err := d.desks[i%3].Approve(t.Context(), &capgatepb.ApproveRequest{ApprovalId: d.ids[i]})
		check.Must(t, err)
	}
	var err error
	d.events, err = d.desks[1].WatchApprovals(t.Context(), &capgatepb.WatchApprovalsRequest{})
	check.Must(t, err)
	_, err = d.events.Recv() // its first attempt
	check.Must(t, err)
	return d
}

// begin makes some of the calls at each of some gateways, all concurrently.
func (d *dyingGateway) begin(t *testing.T, from, to int, gateways ...int) {
	t.Helper()
	for i := from; i < to; i++ {
		for _, gateway := range gateways {
			d.calling.Go(func() {
				_, d.ends[i][gateway] = invokeAs(t, d.callers[gateway], "ann", killedArgs(i), "x-approval-id", d.ids[i])
			})
		}
	}
}

// waitUsed waits until n more approvals are used. A late event of an approval has its state of now.
func (d *dyingGateway) waitUsed(t *testing.T, n int) {
	t.Helper()
	for most := len(d.used) + n; len(d.used) < most; {
		d.used[nextIn(t, d.events, "used")] = true
	}
}

// waiting returns the number of calls that wait for a permit at one gateway.
func (d *dyingGateway) waiting(t *testing.T, g *member) float64 {
	t.Helper()
	_, text := page(t, "http://"+g.admin+"/metrics")
	return metric(t, text, `capgate_fleet_waiting{capability="caps"}`)
}

// hold takes every permit of the backends, and the first places in the queues of all gateways, until leave.
func (d *dyingGateway) hold(t *testing.T) (leave func()) {
	t.Helper()
	if exit, _, errs := capgatePolicy(t, d.gateways[0].admin, "set", "caps", holdTool, "allow"); exit != 0 {
		t.Fatal(errs)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var held sync.WaitGroup
	for _, caller := range d.callers {
		for range d.backends {
			held.Go(func() {
				for status.Code(holdPlace(ctx, caller)) == codes.FailedPrecondition { // it has not received the rule
				}
			})
		}
	}
	check.Until(t, "the places to be held", func() (bool, string) {
		came, wait := map[string]int{}, 0.0
		for _, p := range d.ran {
			deliveries(came, p)
		}
		for _, g := range d.gateways {
			wait += d.waiting(t, g)
		}
		return came[holdTool] > 0 && came[holdTool]+int(wait) == len(d.callers)*len(d.backends),
			fmt.Sprintf("%d calls run, %v wait", came[holdTool], wait)
	})
	return func() {
		cancel()
		held.Wait()
	}
}

func holdPlace(ctx context.Context, client docpb.CapabilityClient) error {
	_, err := client.Invoke(ctx, &docpb.InvokeRequest{CapabilityId: "caps", ToolName: holdTool,
		ArgsJson: []byte(`"` + holdTool + `"`)})
	return err
}

// verify returns how many calls were lost after their approvals were used. Only the killed gateway may have had
// them.
func (d *dyingGateway) verify(t *testing.T, name string) (lost int) {
	t.Helper()
	var states [killedCalls]string
	for i := range states {
		a, err := d.desks[1].GetApproval(t.Context(), &capgatepb.GetApprovalRequest{ApprovalId: d.ids[i]},
			grpc.WaitForReady(true))
		check.Must(t, err)
		states[i] = a.GetApproval().GetState()
	}
	delivered, came := d.came(t), 0
	for i, ends := range d.ends {
		n, ok := delivered[strings.Trim(killedArgs(i), `"`)], 0
		for gateway, err := range ends {
			switch code := status.Code(err); {
			case code == codes.OK:
				ok++
			case gateway == 0 && code == codes.Unavailable, clienttest.Reason(err) == "APPROVAL_USED":
			default:
				t.Errorf("%s: call %d at gateway %d: %v", name, i, gateway, err)
			}
		}
		came += n
		if n == 0 {
			lost++
		}
		if n > 1 || ok > n || ok < 1 && status.Code(ends[0]) != codes.Unavailable || states[i] != "used" {
			t.Errorf("%s: the backends got call %d %d times, its approval is %s, its ends are %v", name, i, n,
				states[i], ends)
		}
	}
	t.Logf("%s: the backends got %[3]d of %[2]d approved calls", name, killedCalls, came)
	if came == 0 {
		t.Errorf("%s: the backends got no call", name)
	}
	return lost
}

func killedArgs(i int) string { return fmt.Sprintf(`"killed %d"`, i) }
