package cli

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/dnstest"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	docpb "github.com/capgate/capgate/proto/selu/capability"
)

// beforeBackend is three gateways of a capability that has not started yet. Calls wait for it for the given
// time.
func beforeBackend(t *testing.T, wait string) (c *cluster, b *member) {
	t.Helper()
	c = startBackends(t, 0)
	b = &member{addr: net.JoinHostPort(c.host, strconv.Itoa(20_001))}
	text := clusterConfig(c.redis.URL(), 5*time.Second, []string{b.addr})
	c.file = writeConfig(t, strings.Replace(text, "health: {", "health: {wait_for_ready: "+wait+", ", 1))
	for i := range 3 {
		g := &member{addr: net.JoinHostPort(c.host, strconv.Itoa(20_101+i))}
		c.gateways = append(c.gateways, g)
		c.startGateway(t, g)
	}
	c.wait(t, "the backend to be down", c.gateways, only(b.addr, "down"))
	return c, b
}

// A capability that starts after its gateways serves calls that wait at each of them, with Redis and without.
func TestCapabilityAfterItsGateways(t *testing.T) {
	t.Parallel()
	for _, redis := range []string{"with Redis", "without Redis"} {
		t.Run(redis, func(t *testing.T) {
			t.Parallel()
			c, b := beforeBackend(t, "30s")
			if redis == "without Redis" {
				c.redis.Kill()
			}
			type answer struct {
				gateway string
				err     error
			}
			answers := make(chan answer, len(c.gateways))
			for i, client := range clients(t, c.gateways) {
				go func() {
					_, err := client.Invoke(t.Context(), &docpb.InvokeRequest{CapabilityId: "caps",
						ToolName: writeTool})
					answers <- answer{c.gateways[i].id, err}
				}()
			}
			for _, g := range c.gateways {
				waitMetric(t, "http://"+g.admin+"/metrics", `capgate_memory_bytes{pool="unready"}`,
					func(n float64) bool { return n > 0 }) // that of a waiting call
			}
			c.startBackend(t, b)
			for range c.gateways {
				a := check.Received(t, answers, "the answer")
				if a.err != nil {
					t.Errorf("%s: %v", a.gateway, a.err)
				}
			}
			for _, g := range c.gateways {
				g.stop(t)
				if log := g.stderr.String(); strings.Contains(log, `"msg":"backend recovering"`) {
					t.Errorf("one good probe is enough:\n%s", log)
				}
			}
		})
	}
}

// A call that arrives before its fleet has a backend is served by the first one that registers, or appears in
// DNS.
func TestCallBeforeTheFirstBackend(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"registered", "in DNS"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			b := gatewaytest.NewCapability("late").Serve(t, call.Doc)
			dns := dnstest.Start(t)
			more, backend := fmt.Sprintf("dns: {server: '%s', resolve: 1h}", dns.Addr), ""
			if kind == "in DNS" {
				backend = fmt.Sprintf("dns:///caps.test.:%d", portOf(t, b))
			}
			file := registryConfig(t, more, backend)
			text, err := os.ReadFile(file)
			check.Must(t, err)
			check.Must(t, os.WriteFile(file,
				[]byte(strings.Replace(string(text), "health: {", "health: {wait_for_ready: 30s, ", 1)),
				0o600))
			p, public, admin := serve(t, nil, "--config", file)
			client, ended := dial(t, public), make(chan error, 1)
			go func() {
				_, err := client.Invoke(t.Context(),
					&docpb.InvokeRequest{CapabilityId: "caps", ToolName: gatewaytest.Echo})
				ended <- err
			}()
			waitMetric(t, "http://"+admin+"/metrics", `capgate_memory_bytes{pool="unready"}`,
				func(n float64) bool { return n > 0 }) // that of a waiting call
			if kind == "in DNS" {
				dns.Set("caps.test.", "127.0.0.1")
			} else {
				register(t, admin, b.Addr)
			}
			check.Must(t, check.Received(t, ended, "the end of the call"))
			p.stop(t)
		})
	}
}

// A client that calls repeatedly, with the default wait, succeeds once the capability listens.
func TestCapabilityAfterItsGatewayIsPolled(t *testing.T) {
	t.Parallel()
	c, b := beforeBackend(t, "1s")
	all := clients(t, c.gateways)
	answered := make(chan struct{}, len(all))
	for _, client := range all {
		go func() {
			for t.Context().Err() == nil {
				if _, err := client.Invoke(t.Context(),
					&docpb.InvokeRequest{CapabilityId: "caps", ToolName: readTool}); err == nil {
					answered <- struct{}{}
					return
				}
			}
		}()
	}
	c.startBackend(t, b)
	for i := range all {
		check.Received(t, answered, fmt.Sprintf("an answer to client %d of %d", i+1, len(all)))
	}
	for _, g := range c.gateways {
		g.stop(t)
	}
}
