package resolve_test

import (
	"fmt"
	"testing"

	"github.com/capgate/capgate/gateway/filter"
	"github.com/capgate/capgate/gateway/filter/resolve"
	"github.com/capgate/capgate/internal/testkit/filtertest"
	"github.com/capgate/capgate/router"
)

func routerOf(capabilities ...string) *router.Router {
	var fleets []router.FleetConfig
	for _, name := range capabilities {
		fleets = append(fleets, router.FleetConfig{Capability: name, Backends: router.Addrs(name + ":1")})
	}
	table, err := router.NewTable(router.Config{Fleets: fleets}, nil)
	if err != nil {
		panic(err)
	}
	return router.New(table)
}

// TestConflict: the metadata and the message must agree.
func TestConflict(t *testing.T) {
	t.Parallel()
	c, _ := filtertest.NewCall(filter.CapabilityHeader, "mail")
	c.SetPeeked(&filter.Peeked{Capability: "weather"})
	if refusal := resolve.New(routerOf("mail", "weather")).Check(c); refusal == nil ||
		refusal.Reason != "ROUTING_KEY_CONFLICT" {
		t.Errorf("%+v", refusal)
	}
}

// TestUnknown: a call without a fleet is rejected, and has no capability.
func TestUnknown(t *testing.T) {
	t.Parallel()
	c, _ := filtertest.NewCall(filter.CapabilityHeader, "mali")
	if refusal := resolve.New(routerOf("mail")).Check(c); refusal == nil || c.Info.Capability != "" {
		t.Errorf("%+v, %q", refusal, c.Info.Capability)
	}
}

// The message names the capability.
func Example() {
	c, _ := filtertest.NewCall()
	c.SetPeeked(&filter.Peeked{Capability: "mail"})
	if refusal := resolve.New(routerOf("mail", "weather")).Check(c); refusal != nil {
		fmt.Println(refusal.Reason)
	}
	fmt.Println(c.Fleet.Capability)
	// Output: mail
}
