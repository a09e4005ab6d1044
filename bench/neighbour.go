package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/capgate/capgate/bench/h2"
	"github.com/capgate/capgate/bench/load"
	"github.com/capgate/capgate/bench/peers"
	"github.com/capgate/capgate/internal/tenant"
)

const (
	quietRate   = 500             // calls a second of the tenant that is harmed, or not
	floodTimes  = 2               // as many calls as the gateway can do, of the one that floods
	floodBefore = 2 * time.Second // the flood begins so long before the other's calls count
)

// neighbour measures a tenant's calls alone, and beside the flood of another.
func (b *bench) neighbour(ctx context.Context) (string, error) {
	env := b.env
	var keys [2]string
	env.Capgate.Config, keys = twoTenants()
	spec := peers.CapgateSpec(env.Capgate)
	p, err := peers.Start(ctx, spec, env)
	if err != nil {
		return "", err
	}
	b.running = append(b.running, p)
	defer b.stopPeer(p)
	calls := load.Config{Method: load.Invoke, RequestSize: 1024, Conns: 8, Work: h2.Work{Kind: h2.ReplyWork, Count: 1, Size: 1024}}
	most := calls
	most.Key, most.Mode, most.Flood, most.Streams, most.Warm, most.Window = keys[0], load.Closed, true, inflight/8, time.Second, b.opts.window
	can, err := b.window(ctx, p, most)
	if err != nil {
		return "", fmt.Errorf("what the gateway can do: %w", err)
	}
	quiet := calls
	quiet.Key, quiet.Mode, quiet.Rate, quiet.Conns, quiet.Warm, quiet.Window = keys[1], load.Open, quietRate, 4, b.opts.warm, b.opts.window
	quiet.Turn = load.First
	alone, err := b.window(ctx, p, quiet)
	if err != nil {
		return "", fmt.Errorf("a tenant alone: %w", err)
	}
	flood := calls
	flood.Key, flood.Mode, flood.Flood, flood.Turn = keys[0], load.Open, true, load.Last
	flood.Rate, flood.Window = floodTimes*int(float64(can.Calls)/can.Seconds), floodBefore+b.opts.warm+b.opts.window+time.Second
	l, err := b.startLoad(ctx, p, flood)
	if err != nil {
		return "", err
	}
	pause(ctx, floodBefore)
	beside, err := b.window(ctx, p, quiet)
	came, floodErr := l.wait()
	if err != nil {
		return "", fmt.Errorf("a tenant beside a flood: %w", err)
	}
	if floodErr != nil {
		return "", fmt.Errorf("the flood: %w", floodErr)
	}
	return neighbourTable(b.opts.window, can, alone, beside, came), nil
}

func neighbourTable(window time.Duration, can, alone, beside, came load.Result) string {
	var out strings.Builder
	fmt.Fprintf(&out, "%s, windows of %v. The gateway has a core for itself, and can do %.0f calls a second of the flooding tenant alone.\n\n",
		machine(), window, float64(can.Calls)/can.Seconds)
	out.WriteString("| the other tenant's calls | calls/s | failed | p50 / p99 | others busy |\n|---|---|---|---|---|\n")
	fmt.Fprintf(&out, "| alone | %.0f | %d | %s | %s |\n", float64(alone.Calls)/alone.Seconds, alone.Errors, latency(alone), share(alone.OtherCPU+alone.Stolen, alone.Seconds))
	fmt.Fprintf(&out, "| beside the flood | %.0f | %d | %s | – |\n", float64(beside.Calls)/beside.Seconds, beside.Errors, latency(beside))
	fmt.Fprintf(&out, "\np99 beside the flood is %.2f times that alone. Of the flood, in all, %d calls were served and %d turned away.\n",
		float64(beside.P99)/float64(alone.P99), came.Total, came.Refused)
	return out.String()
}

// twoTenants is the part of a configuration that has them, and their keys.
func twoTenants() (config string, keys [2]string) {
	var out strings.Builder
	out.WriteString("tenants:\n")
	for i, name := range []string{"flood", "quiet"} {
		id, secret := tenant.NewCredential()
		keys[i] = tenant.Credential(id, secret)
		fmt.Fprintf(&out, "  - id: %s\n    capabilities: [\"*\"]\n    keys: [{id: %s, hash: %q}]\n", name, id, tenant.HashOf(secret, nil))
	}
	return out.String(), keys
}
