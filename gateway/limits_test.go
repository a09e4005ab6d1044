package gateway_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	"github.com/capgate/capgate/router"
)

// concurrentCalls counts the concurrent calls at a backend. Each call takes some time.
type concurrentCalls struct{ now, most, all atomic.Int64 }

func (c *concurrentCalls) option() grpc.ServerOption {
	return grpc.UnaryInterceptor(func(ctx context.Context, req any, _ *grpc.UnaryServerInfo,
		handler grpc.UnaryHandler) (any, error) {
		c.all.Add(1)
		n := c.now.Add(1)
		defer c.now.Add(-1)
		for most := c.most.Load(); n > most && !c.most.CompareAndSwap(most, n); most = c.most.Load() {
		}
		<-time.After(2 * time.Millisecond) // the tool's work
		return handler(ctx, req)
	})
}

// Three gateways with one Redis never send a backend more concurrent calls than its limit, and all calls
// succeed.
func TestMaxConcurrentOfThreeGateways(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ limit, backends int }{"one at a time": {1, 1}, "three of each": {3, 2}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			redis := gatewaytest.StartRedis(t)
			var backends []*concurrentCalls
			var addrs []string
			for range test.backends {
				c := &concurrentCalls{}
				backends = append(backends, c)
				addrs = append(addrs, gatewaytest.NewCapability("b").Serve(t, call.Doc, c.option()).Addr)
			}
			const gateways, workers, each = 3, 8, 15
			var work sync.WaitGroup
			for range gateways {
				g := gatewaytest.Start(t, gatewaytest.Options{Permits: redis.Permits(t), Fleets: []gatewaytest.Fleet{{
					Capability: "caps", Dialect: call.Doc, Unprobed: true, Backends: addrs,
					Limit: router.Limit{PerBackend: test.limit, Queue: router.Queue{Wait: time.Hour}},
				}}})
				client := gatewaytest.NewClient(g.Conn(t), call.Live)
				for range workers {
					work.Go(func() {
						for range each {
							if _, err := client.Invoke(t.Context(), request(gatewaytest.Echo, `{}`)); err != nil {
								t.Error(err)
							}
						}
					})
				}
			}
			work.Wait()
			var all int64
			for i, c := range backends {
				all += c.all.Load()
				if most := c.most.Load(); most > int64(test.limit) || most == 0 {
					t.Errorf("backend %d had %d calls at once, limit %d", i, most, test.limit)
				}
			}
			if all != gateways*workers*each {
				t.Errorf("%d calls, want %d", all, gateways*workers*each)
			}
		})
	}
}

// failingPermits is a permit store that fails once its gateway is dead.
type failingPermits struct {
	router.PermitStore
	dead atomic.Bool
}

func (m *failingPermits) Exchange(ctx context.Context, capability string, wants []router.Demand) ([]router.Grant,
	error) {
	if m.dead.Load() {
		return nil, errors.New("dead")
	}
	return m.PermitStore.Exchange(ctx, capability, wants)
}

// TestMaxConcurrentOfADyingGateway: the permits of a replica that died pass to another one.
func TestMaxConcurrentOfADyingGateway(t *testing.T) {
	t.Parallel()
	redis := gatewaytest.StartRedis(t)
	one, calls := gatewaytest.NewCapability("one"), &concurrentCalls{}
	fleets := []gatewaytest.Fleet{{
		Capability: "caps", Dialect: call.Doc, Unprobed: true,
		Backends: []string{one.Serve(t, call.Doc, calls.option()).Addr},
		Limit:    router.Limit{PerBackend: 2, Queue: router.Queue{Wait: time.Hour}},
	}}
	slots := &failingPermits{PermitStore: redis.Permits(t)}
	dying := gatewaytest.Start(t, gatewaytest.Options{Permits: slots, Fleets: fleets})
	other := gatewaytest.Start(t, gatewaytest.Options{Permits: redis.Permits(t), Fleets: fleets})
	living, die := context.WithCancel(t.Context())
	lost, ended := make(chan error, 2), make(chan error, 4)
	client := gatewaytest.NewClient(dying.Conn(t), call.Doc)
	for range 2 {
		go func() { lost <- invokeBlock(client)(living) }()
		check.Received(t, one.Blocked(), "a call of the dying gateway")
	}
	client = gatewaytest.NewClient(other.Conn(t), call.Doc)
	for range cap(ended) {
		go func() {
			_, err := client.Invoke(t.Context(), request(gatewaytest.Echo, `{}`))
			ended <- err
		}()
	}
	waitWaiting(t, other, float64(cap(ended)))
	slots.dead.Store(true)
	die()
	for range cap(lost) {
		if err := check.Received(t, lost, "the end of the lost call"); status.Code(err) != codes.Canceled {
			t.Error(err)
		}
	}
	for range cap(ended) {
		if err := check.Received(t, ended, "the end of the call"); err != nil {
			t.Error(err)
		}
	}
	if most := calls.most.Load(); most != 2 {
		t.Errorf("%d calls at once", most)
	}
}

// waitWaiting waits until the given number of calls wait at a gateway.
func waitWaiting(t *testing.T, g *gatewaytest.Gateway, n float64) {
	t.Helper()
	check.Until(t, "calls to wait", func() (bool, string) {
		waiting := g.Metrics(t)[`capgate_fleet_waiting{capability="caps"}`]
		return waiting == n, fmt.Sprintf("%v wait, want %v", waiting, n)
	})
}

// TestMaxConcurrentQueue: a waiting call may be canceled or time out, a full queue rejects, and a released permit
// admits the next call.
func TestMaxConcurrentQueue(t *testing.T) {
	t.Parallel()
	one := gatewaytest.NewCapability("one")
	g := gatewaytest.Start(t, gatewaytest.Options{Fleets: []gatewaytest.Fleet{{
		Capability: "caps", Dialect: call.Doc, Unprobed: true, Backends: []string{one.Serve(t, call.Doc).Addr},
		Limit: router.Limit{PerBackend: 1, Queue: router.Queue{Size: 1, Wait: time.Hour}},
	}}})
	client := gatewaytest.NewClient(g.Conn(t), call.Doc)
	first := make(chan error, 1)
	go func() { first <- invokeBlock(client)(t.Context()) }()
	check.Received(t, one.Blocked(), "the first call")

	leaving, leave := context.WithCancel(t.Context())
	left := make(chan error, 1)
	go func() { left <- invokeBlock(client)(leaving) }()
	waitWaiting(t, g, 1)
	_, err := client.Invoke(t.Context(), request(gatewaytest.Echo, `{}`))
	info := errorInfo(err)
	if status.Code(err) != codes.ResourceExhausted || info.GetReason() != "CONCURRENCY_LIMIT" ||
		info.GetMetadata()["capability"] != "caps" || retryDelay(err) <= 0 {
		t.Errorf("%v, %v, retry after %v", err, info, retryDelay(err))
	}
	resp, body := post(t, g.HTTP1(t), g, "caps", `{"tool_name":"echo"}`)
	if resp.StatusCode != http.StatusTooManyRequests || resp.Header.Get("Retry-After") == "" ||
		!strings.Contains(body, "CONCURRENCY_LIMIT") {
		t.Errorf("REST: %s, Retry-After %q, %s", resp.Status, resp.Header.Get("Retry-After"), body)
	}
	leave()
	if err := check.Received(t, left, "the end of the call of who leaves"); status.Code(err) != codes.Canceled {
		t.Error(err)
	}
	waitWaiting(t, g, 0)

	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := client.Invoke(short, request(gatewaytest.Echo, `{}`)); status.Code(err) != codes.DeadlineExceeded {
		t.Error(err)
	}
	waitWaiting(t, g, 0)

	next := make(chan error, 1)
	go func() {
		_, err := client.StreamInvoke(t.Context(), request(gatewaytest.Echo, `{}`))
		next <- err
	}()
	waitWaiting(t, g, 1)
	one.Release()
	for _, ended := range []chan error{first, next} {
		if err := check.Received(t, ended, "the end of the call"); err != nil {
			t.Error(err)
		}
	}
	if n := len(one.Seen()); n != 2 {
		t.Errorf("the backend got %d calls, want 2", n)
	}
	g.Log.Calls(t, 6) // a client may see the end of its call before the permit is released
	m := g.Metrics(t)
	if m[`capgate_fleet_places{capability="caps",state="used"}`] != 0 ||
		m[`capgate_fleet_places{capability="caps",state="free"}`] != 1 ||
		m[`capgate_limit_refused_total{capability="caps"}`] != 2 ||
		m[`capgate_limit_waits_total{capability="caps"}`] < 2 {
		t.Errorf("got %v", m)
	}
}

// A backend that dies with all permits taken releases them, and waiting calls go to the others. Translated
// calls take one permit, not two.
func TestMaxConcurrentOfADyingBackend(t *testing.T) {
	every(t, func(t *testing.T, client, backend call.Dialect) {
		one, two := gatewaytest.NewCapability("one"), gatewaytest.NewCapability("two")
		dying, other := one.Serve(t, backend), two.Serve(t, backend)
		g := gatewaytest.Start(t, gatewaytest.Options{Fleets: []gatewaytest.Fleet{{
			Capability: "caps", Dialect: backend, Unprobed: true, Backends: []string{dying.Addr, other.Addr},
			Idempotent: []string{"*"}, Limit: router.Limit{PerBackend: 1, Queue: router.Queue{Wait: time.Hour}},
		}}})
		c := gatewaytest.NewClient(g.Conn(t), client)
		ended := make(chan error, 2)
		for range 2 {
			go func() { ended <- invokeBlock(c)(t.Context()) }()
		}
		check.Received(t, one.Blocked(), "a call at one")
		check.Received(t, two.Blocked(), "a call at the other")
		dying.Stop() // its call waits for the other backend
		waitWaiting(t, g, 1)
		two.Release()
		for range 2 {
			if err := check.Received(t, ended, "the end of the call"); err != nil {
				t.Error(err)
			}
		}
		for range 3 {
			run := func() error { return second(c.Invoke(t.Context(), request(gatewaytest.Echo, `{}`))) }
			if filed(client, backend) {
				run = func() error { return second(c.Upload(to(t.Context(), "caps"), gatewaytest.File{Name: "f"})) }
			}
			if err := run(); err != nil {
				t.Error(err)
			}
		}
		g.Log.Calls(t, 5)
		if m := g.Metrics(t); m[`capgate_fleet_places{capability="caps",state="used"}`] != 0 {
			t.Errorf("got %v", m)
		}
	})
}
