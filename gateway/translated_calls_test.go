package gateway_test

import (
	"testing"
	"time"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	"github.com/capgate/capgate/router"
)

// TestATranslatedCallIsTraced: a translated call has the spans of one call: its caller's and its backend's.
func TestATranslatedCallIsTraced(t *testing.T) {
	t.Parallel()
	f := tracedFront(t, 1, call.Legacy, nil)
	if _, err := f.client.StreamInvoke(to(t.Context(), "caps"), request(gatewaytest.Fail, `{}`)); err != nil {
		t.Fatal(err)
	}
	server, clients := f.pair(t, 1)
	if server.GetName() != "selu.capability.Capability/StreamInvoke" ||
		clients[0].GetName() != "selu.capability.v1.CapabilityService/Invoke" {
		t.Errorf("the spans are %s and %s", server.GetName(), clients[0].GetName())
	}
	checkAttributes(t, server, map[string]string{"gen_ai.tool.name": "fail", "capgate.outcome": "tool_error",
		"capgate.policy": "allow", "capgate.tenant": "default"})
	if parent, _, _ := f.seen(t); parent != "00-"+server.Trace+"-"+clients[0].ID+"-01" {
		t.Errorf("the backend got %q", parent)
	}
}

// TestTranslatedCallsEject: failures of translated calls eject a backend, as those of other calls do.
func TestTranslatedCallsEject(t *testing.T) {
	t.Parallel()
	good, bad := gatewaytest.NewCapability("good"), gatewaytest.NewCapability("bad")
	g := gatewaytest.Start(t, gatewaytest.Options{Fleets: []gatewaytest.Fleet{{
		Capability: "caps", Dialect: call.Legacy, Unprobed: true,
		Backends: []string{good.Serve(t, call.Legacy).Addr, bad.Serve(t, call.Legacy, busy(0, "")).Addr},
		Ejection: router.Ejection{Base: time.Hour, Max: time.Hour},
	}}})
	c := gatewaytest.NewClient(g.Conn(t), call.Doc)
	failed := 0
	for i := range 60 {
		if err := second(c.Invoke(t.Context(), request(gatewaytest.Echo, `{}`))); err != nil {
			failed++
		}
		g.Log.Calls(t, i+1) // until it is known
	}
	if n := len(bad.Seen()); n != failed || n == 0 || n > 10 {
		t.Errorf("the bad backend had %d calls, of which %d failed", n, failed)
	}
}
