package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/capgate/capgate/bench/peers"
	"github.com/capgate/capgate/bench/rules"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/internal/testkit/redistest"
)

// everything is the configuration of a gateway with everything on: a tenant whose calls have a key and limits of every
// kind, and rules on who may call what, stored in Redis.
type everything struct {
	servers redistest.Main
	url     string
	key     string
	config  string
}

// manyLimits has limits that no call reaches: the cost is in the counting. With tenants, a gateway sheds calls whose
// own work delays them by 10 ms, which a saturated gateway reaches on a busy machine: they get 429, OVERLOADED. Here
// the limit is a second.
const manyLimits = `    limits:
      calls_per_second: %d
      concurrent: 1000000
      per_day: %[1]d
      per_month: %[1]d
      bytes_per_second: %d
      artifact_size: %[2]d
      messages: %[1]d
policies: {}
overload: {max_delay: 1s}
`

func turnOn(ctx context.Context) (*everything, error) {
	const name = "bench"
	on := &everything{}
	on.url = redistest.Start(&on.servers).URL()
	id, secret := tenant.NewCredential()
	on.key = tenant.Credential(id, secret)
	on.config = fmt.Sprintf("tenants:\n  - id: %s\n    capabilities: [\"*\"]\n    keys: [{id: %s, hash: %q}]\n",
		name, id, tenant.HashOf(secret, nil)) + fmt.Sprintf(manyLimits, tenant.MaxCalls, tenant.MaxBytes)
	if err := rules.Allow(ctx, on.url, name, "weather"); err != nil {
		on.servers.Close()
		return nil, err
	}
	return on, nil
}

// of returns c with everything on.
func (on *everything) of(c peers.Capgate) peers.Capgate {
	c.Config += on.config
	c.Args = append(slices.Clip(c.Args), "--redis", on.url)
	return c
}
