package cli

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/clienttest"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	"github.com/capgate/capgate/internal/testkit/redistest"
	docpb "github.com/capgate/capgate/proto/selu/capability"
)

// limitedGateways are three processes that share the limits of one tenant.
type limitedGateways struct {
	redis    *redistest.Server
	backend  *gatewaytest.Capability
	crowd    *crowd
	programs []*program
	admins   []string
	clients  []docpb.CapabilityClient
	key      string
}

func startLimited(t *testing.T, limits string, more ...string) *limitedGateways {
	t.Helper()
	g := &limitedGateways{redis: redistest.Start(t), backend: gatewaytest.NewCapability("one"), crowd: &crowd{}}
	key, entry := makeKey(t)
	g.key = key
	file := writeConfig(t, configOf("redis: {url: '"+g.redis.URL()+
		"', timeout: 10s}\noverload: {max_delay: 10s}\ntenants: [{id: acme, capabilities: ['*'], limits: "+limits+
		", keys: ["+entry+"]}]\n"+strings.Join(more, "\n"),
		g.backend.Serve(t, call.Doc, g.crowd.option()).Addr))
	for range 3 {
		p, public, admin := serve(t, nil, "--config", file)
		g.programs, g.clients, g.admins = append(g.programs, p), append(g.clients, dial(t, public)),
			append(g.admins, admin)
	}
	return g
}

func (g *limitedGateways) invoke(ctx context.Context, gateway int, tool string) error {
	ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+g.key)
	_, err := g.clients[gateway].Invoke(ctx,
		&docpb.InvokeRequest{CapabilityId: "caps", ToolName: tool, ArgsJson: []byte("{}")})
	return err
}

// clock returns the time of Redis, in milliseconds.
func (g *limitedGateways) clock(t *testing.T) int64 {
	t.Helper()
	var seconds, micros int64
	_, err := fmt.Sscan(strings.Trim(fmt.Sprint(g.redis.Do("TIME")), "[]"), &seconds, &micros)
	check.Must(t, err)
	return seconds*1000 + micros/1000
}

// ownShares returns how often gateways granted calls from their own shares, as they do if Redis does not
// respond within a tenth of a second.
func (g *limitedGateways) ownShares(t *testing.T) (n int64) {
	t.Helper()
	for _, address := range g.admins {
		_, text := page(t, "http://"+address+"/metrics")
		n += int64(metric(t, text, `capgate_limit_leases_total{result="own_share"}`))
	}
	return n
}

// TestThreeGatewaysKeepToADaysCalls: three processes together make exactly the calls of a day, no faster than
// their rate. On a busy machine Redis is late, and a gateway then grants a few calls at a time from its own
// share. The limits may be exceeded only by these, and the test tries for a round without them.
func TestThreeGatewaysKeepToADaysCalls(t *testing.T) {
	t.Parallel()
	for range 2 {
		if spendDay(t) || t.Failed() {
			return
		}
	}
}

// spendDay calls three gateways until each has used up the day's calls. The result is not exact if a gateway
// used its own share.
func spendDay(t *testing.T) (exact bool) {
	t.Helper()
	const budget, rate, burst, lease = 300, 100, 30, 100 / 4
	const granted = 1 + budget/64 // granted by a gateway at a time: the waiting call, and a lease of the budget
	g := startLimited(t, fmt.Sprintf("{calls_per_second: %d, burst: %d, per_day: %d}", rate, burst, budget))
	var made, limited [3]int64
	var calling sync.WaitGroup
	ctx, begun := check.Context(t), g.clock(t)
	for gateway := range made {
		calling.Go(func() {
			for {
				err := g.invoke(ctx, gateway, gatewaytest.Echo)
				switch limit := clienttest.Metadata(err, "limit"); {
				case err == nil:
					made[gateway]++
				case status.Code(err) == codes.ResourceExhausted && limit == call.CallsPerSecond.String():
					limited[gateway]++
					<-time.After(pace) // a machine busy with rejections would make Redis late
				case status.Code(err) == codes.ResourceExhausted && limit == call.PerDay.String():
					return
				default:
					t.Errorf("gateway %d: %v, after %d calls", gateway, err, made[gateway])
					return
				}
			}
		})
	}
	calling.Wait()
	ended := g.clock(t)
	took, days := ended-begun, ended/86_400_000-begun/86_400_000+1
	own := g.ownShares(t)
	for _, p := range g.programs {
		p.stop(t)
	}
	n := made[0] + made[1] + made[2]
	if own == 0 && n < budget || n > budget*days+own*granted {
		t.Errorf("%v calls of a budget of %d, in %d days, with %d grants of own shares", made, budget, days, own)
	}
	if most := burst + rate*took/1000 + 3*lease + own*granted; n > most {
		t.Errorf("%v calls in %d ms, want at most %d", made, took, most)
	}
	// Calls that a busy machine makes no faster than the rate are not rejected.
	if own == 0 && limited[0]+limited[1]+limited[2] == 0 && n > burst+rate*took/1000 {
		t.Errorf("%v calls in %d ms, and the rate rejected none", made, took)
	}
	return own == 0
}

// TestPermitsOfAKilledGateway: three processes never exceed their tenant's concurrent calls. The permits of a
// killed one return when their time in Redis is over, and not before.
func TestPermitsOfAKilledGateway(t *testing.T) {
	t.Parallel()
	const limit = 6
	g := startLimited(t, fmt.Sprintf("{concurrent: %d}", limit))
	ctx, end := context.WithCancel(t.Context())
	var calling sync.WaitGroup
	var killed atomic.Bool // the first gateway
	defer calling.Wait()
	defer end()
	keepCalling := func(gateway int) { // until it is admitted, and again when it has ended
		calling.Go(func() {
			for {
				err := g.invoke(ctx, gateway, gatewaytest.Block)
				switch code := status.Code(err); {
				case code == codes.Canceled && ctx.Err() != nil, code == codes.Unavailable && gateway == 0 &&
					killed.Load():
					return
				case code != codes.ResourceExhausted || clienttest.Metadata(err, "limit") != call.Concurrent.String():
					t.Errorf("gateway %d: %v", gateway, err)
					return
				}
				<-time.After(5 * time.Millisecond)
			}
		})
	}
	held := func() int64 { return g.crowd.now.Load() }
	waitHeld := func(n int64, what string) {
		t.Helper()
		check.Until(t, what, func() (bool, string) {
			now := held()
			return now == n, fmt.Sprintf("%d calls run, want %d", now, n)
		})
	}
	for range 2 {
		keepCalling(0)
	}
	waitHeld(2, "the first gateway's")
	for range limit {
		keepCalling(1)
		keepCalling(2)
	}
	waitHeld(limit, "all gateways'")
	killed.Store(true)
	g.programs[0].signal(t, syscall.SIGKILL)
	check.Received(t, g.programs[0].exited, "the end of the process")
	waitHeld(limit-2, "after one was killed") // its calls ended with it

	ends := g.lastPlaces(t)
	for now := int64(0); now < ends; {
		running := held()
		if now = g.clock(t); now < ends && running > limit-2 {
			t.Fatalf("%d calls run %d ms before the places of the killed gateway come back", running, ends-now)
		}
		<-time.After(5 * time.Millisecond)
	}
	waitHeld(limit, "places have come back")
	if most := g.crowd.most.Load(); most > limit {
		t.Errorf("%d calls at once, want %d", most, limit)
	}
}

// lastPlaces returns when the permits of the first replica that stops renewing them expire, in milliseconds of
// Redis' clock. Those of live replicas are renewed.
func (g *limitedGateways) lastPlaces(t *testing.T) (ends int64) {
	t.Helper()
	key := strings.Trim(fmt.Sprint(g.redis.Do("KEYS", "cg:{acme:limits}:places:*")), "[]")
	// held, wanted until, ends: of the replica whose permits expire first
	for _, fields := range g.placesOf(t, key) {
		at, err := strconv.ParseFloat(fields[2], 64)
		check.Must(t, err)
		if ends == 0 || int64(at) < ends {
			ends = int64(at)
		}
	}
	if ends == 0 {
		t.Fatal("no replica has places")
	}
	return ends
}

func (g *limitedGateways) placesOf(t *testing.T, key string) (all [][]string) {
	t.Helper()
	values, ok := g.redis.Do("HVALS", key).([]any)
	if !ok {
		t.Fatalf("%s: %v", key, g.redis.Do("HVALS", key))
	}
	for _, v := range values {
		fields := strings.Fields(fmt.Sprint(v))
		if len(fields) != 3 {
			t.Fatalf("got %q", v)
		}
		all = append(all, fields)
	}
	return all
}
