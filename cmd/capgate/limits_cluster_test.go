package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/testkit/check"
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

func startLimited(t *testing.T, limits string) *limitedGateways {
	t.Helper()
	g := &limitedGateways{redis: redistest.Start(t), backend: gatewaytest.NewCapability("one"), crowd: &crowd{}}
	key, entry := makeKey(t)
	g.key = key
	file := writeConfig(t, configOf("redis: {url: '"+g.redis.URL()+
		"', timeout: 10s}\noverload: {max_delay: 10s}\ntenants: [{id: acme, capabilities: ['*'], limits: "+limits+
		", keys: ["+entry+"]}]",
		g.backend.Serve(t, call.Doc, g.crowd.option()).Addr))
	for range 3 {
		p, public, admin := serve(t, nil, "--config", file)
		g.programs, g.clients, g.admins = append(g.programs, p), append(g.clients, dial(t, public)), append(g.admins, admin)
	}
	return g
}

func (g *limitedGateways) invoke(ctx context.Context, gateway int, tool string) codes.Code {
	ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+g.key)
	_, err := g.clients[gateway].Invoke(ctx,
		&docpb.InvokeRequest{CapabilityId: "caps", ToolName: tool, ArgsJson: []byte("{}")})
	return status.Code(err)
}

// clock is Redis' own, in milliseconds.
func (g *limitedGateways) clock(t *testing.T) int64 {
	t.Helper()
	var seconds, micros int64
	_, err := fmt.Sscan(strings.Trim(fmt.Sprint(g.redis.Do("TIME")), "[]"), &seconds, &micros)
	check.Must(t, err)
	return seconds*1000 + micros/1000
}

// ownShares returns how often gateways granted themselves calls from their shares, as they do if Redis does not answer
// within a tenth of a second.
func (g *limitedGateways) ownShares(t *testing.T) (n int64) {
	t.Helper()
	for _, address := range g.admins {
		_, text := page(t, "http://"+address+"/metrics")
		n += int64(metric(t, text, `capgate_limit_leases_total{result="own_share"}`))
	}
	return n
}

// TestThreeGatewaysKeepToADaysCalls: three processes that are called more than they may be make
// exactly as many calls of a budget, and of calls per second no more than the time on Redis' clock
// and what the three may have at hand are good for.
func TestThreeGatewaysKeepToADaysCalls(t *testing.T) {
	t.Parallel()
	const budget, rate, burst, lease = 300, 200, 60, 200 / 4
	g := startLimited(t, fmt.Sprintf("{calls_per_second: %d, burst: %d, per_day: %d}", rate, burst, budget))
	made := make([]int64, 3)
	var calling sync.WaitGroup
	var refused sync.Map
	begun := g.clock(t)
	for gateway := range made {
		calling.Go(func() {
			for tries := 0; tries < 2*budget; tries++ {
				switch code := g.invoke(t.Context(), gateway, gatewaytest.Echo); code {
				case codes.OK:
					made[gateway]++
				case codes.ResourceExhausted:
					refused.Store(gateway, true)
				default:
					t.Errorf("gateway %d: %v", gateway, code)
				}
			}
		})
	}
	calling.Wait()
	ended := g.clock(t)
	took, days := ended-begun, ended/86_400_000-begun/86_400_000+1
	// One of a gateway's own grants is for its call that waits, and for a 64th of the budget.
	own := g.ownShares(t) * (budget/64 + 1)
	n := made[0] + made[1] + made[2]
	if most := budget*days + own; n > most {
		t.Errorf("%d calls of a budget of %d, and %d by gateways' own shares", n, budget, own)
	}
	if most := burst + rate*took/1000 + 3*lease + own; n > most || n < burst {
		t.Errorf("%d calls in %d ms, want %d to %d; %d of them by gateways' own shares", n, took, burst, most, own)
	}
	for gateway := range made {
		if _, ok := refused.Load(gateway); !ok {
			t.Errorf("gateway %d refused nothing", gateway)
		}
	}
}

// TestPlacesOfAKilledGateway: three processes never make more calls at once than their tenant may,
// and what one had that is killed comes back when its time in Redis is over, and not before.
func TestPlacesOfAKilledGateway(t *testing.T) {
	t.Parallel()
	const limit = 6
	g := startLimited(t, fmt.Sprintf("{concurrent: %d}", limit))
	ctx, end := context.WithCancel(t.Context())
	var calling sync.WaitGroup
	defer calling.Wait()
	defer end()
	keepCalling := func(gateway int) { // until it is let in, and again when it is out
		calling.Go(func() {
			for ctx.Err() == nil {
				if code := g.invoke(ctx, gateway, gatewaytest.Block); code == codes.Unavailable {
					return // killed
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
	g.programs[0].signal(t, 9)
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

// lastPlaces is when the places of some replica are over that says no more of them: on Redis'
// clock, in milliseconds. Of those that live it goes on and on.
func (g *limitedGateways) lastPlaces(t *testing.T) (ends int64) {
	t.Helper()
	key := strings.Trim(fmt.Sprint(g.redis.Do("KEYS", "cg:{acme:limits}:places:*")), "[]")
	// held, wanted until, ends, number: of the replica that ends first
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
		if len(fields) != 4 {
			t.Fatalf("%q", v)
		}
		all = append(all, fields)
	}
	return all
}
