package gateway_test

import (
	"encoding/base64"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/capgate/capgate/gateway/frontdoor/mcp"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/overload"
	"github.com/capgate/capgate/internal/testkit/clienttest"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
)

// costlyDoors are the doors whose requests cost more the longer they are.
var costlyDoors = []struct {
	name, path string // path is empty for gRPC
	body       func(args string) string
}{
	{"JSON", "/v1/capabilities/caps/tools/echo", func(args string) string { return args }},
	{"JSON with an envelope", "/v1/capabilities/caps/invoke", func(args string) string {
		return `{"tool_name":"echo","args":` + args + `}`
	}},
	{"MCP", mcp.Path, func(args string) string {
		return `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"caps__echo","arguments":` + args + `}}`
	}},
	{"Connect", invokePath, func(args string) string {
		return `{"capabilityId":"caps","toolName":"echo","argsJson":"` +
			base64.StdEncoding.EncodeToString([]byte(args)) + `"}`
	}},
	{"gRPC", "", nil},
}

// costlyTenants has the calls of two tenants to a gateway that is overloaded when the test says so.
type costlyTenants struct {
	*mcpFront
	shedder *overload.Shedder
}

// invoke calls echo and reports whether the call was shed. Any other failure fails the test.
func (c *costlyTenants) invoke(t *testing.T, door int, tenant, args string) (shed bool) {
	t.Helper()
	d := &costlyDoors[door]
	if d.path == "" {
		_, err := gatewaytest.NewClient(c.gateway.Conn(t), call.Doc).Invoke(
			to(bearer(t.Context(), tenant), "caps"), request(gatewaytest.Echo, args))
		if err != nil {
			wants(t, err, codes.ResourceExhausted, "OVERLOADED")
		}
		return err != nil
	}
	resp, text := clienttest.Send(t, clienttest.HTTP, http.MethodPost, c.gateway.URL(d.path), d.body(args),
		"Content-Type", "application/json", "Accept", "application/json, text/event-stream", "Authorization",
		"Bearer "+tenant)
	if shed = strings.Contains(text, "OVERLOADED"); !shed && (resp.StatusCode != http.StatusOK ||
		strings.Contains(text, `"error"`)) {
		t.Fatalf("%s: %s %.500s", d.name, resp.Status, text)
	}
	return shed
}

// late simulates n ticks in which bytes waited too long.
func (c *costlyTenants) late(ticks int) {
	for range ticks {
		c.shedder.Tick(overload.Signals{Delay: time.Second})
	}
}

// TestSharesAreOfCost: one tenant makes a few expensive calls, another many cheap ones. When the gateway is
// overloaded, calls of the first are shed before their bodies are read, and none of the other. The log and the
// metrics name the limit and the tenant.
func TestSharesAreOfCost(t *testing.T) {
	t.Parallel()
	large, small := `{"a":"`+strings.Repeat("x", 2*mib)+`"}`, `{}`
	for i, door := range costlyDoors {
		t.Run(door.name, func(t *testing.T) {
			t.Parallel()
			var log strings.Builder // written by Tick
			c := &costlyTenants{shedder: overload.New(overload.Config{MaxDelay: time.Millisecond,
				Log: slog.New(slog.NewTextHandler(&log, nil))})}
			c.mcpFront = startMCP(t, func(o *gatewaytest.Options) {
				o.Authenticator, o.Overload, o.Relay.Memory.MaxConnBuffered = byName{}, c.shedder, 1<<30
			})
			c.invoke(t, i, "acme", small)
			c.invoke(t, i, "globex", small)
			c.late(2)
			for range 4 {
				if c.invoke(t, i, "acme", large) {
					t.Fatal("shed too early")
				}
			}
			for range 40 {
				c.invoke(t, i, "globex", small)
			}
			c.late(3)
			for range 40 {
				if c.invoke(t, i, "globex", small) {
					t.Fatal("a cheap call was shed")
				}
			}
			shed := 0
			for tries := 0; shed == 0 && tries < 10; tries++ { // first, it uses what is left of the tick
				if c.invoke(t, i, "acme", large) {
					shed++
				}
				if door.path == "" {
					c.shedder.Tick(overload.Signals{}) // observes what the relay has moved
				}
			}
			if shed == 0 {
				t.Fatal("expensive calls are admitted")
			}
			if door.path != "" {
				shed++
				if got := declare(t, &front{gateway: c.gateway}, door.path, "application/json", 2*mib,
					"Authorization", "Bearer acme", "Accept",
					"application/json, text/event-stream").answer(t); !strings.Contains(
					got, "OVERLOADED") {
					t.Errorf("an expensive request: %.300s", got)
				}
			}
			all := c.gateway.Metrics(t)
			if all[`capgate_tenant_shed_total{limit="delay",tenant="acme"}`] != float64(shed) ||
				all[`capgate_shed_total{tenant="acme"}`] != float64(shed) ||
				all[`capgate_shed_total{tenant="globex"}`] != 0 {
				t.Errorf("the metrics name another limit or tenant")
			}
			c.late(50)
			if got := log.String(); strings.Count(got, "\n") != 1 ||
				!strings.Contains(got, fmt.Sprint("limit=delay tenant=acme calls=", shed)) {
				t.Errorf("the log says %q", got)
			}
		})
	}
}
