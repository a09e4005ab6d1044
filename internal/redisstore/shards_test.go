package redisstore_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/capgate/capgate/internal/idempotency"
	"github.com/capgate/capgate/internal/redisstore"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/redistest"
	"github.com/capgate/capgate/policy/approvals"
)

// tenantsByNode returns a tenant for each node of a Cluster, which has its idempotency keys.
func tenantsByNode(t *testing.T, cluster *redistest.Cluster) map[int]string {
	t.Helper()
	all := map[int]string{}
	for i := 0; len(all) < 3; i++ {
		tenant := fmt.Sprint("tenant", i)
		if node := cluster.NodeOf(t, "{"+tenant+":idempotency}"); all[node] == "" {
			all[node] = tenant
		}
	}
	return all
}

// TestAShardIsLost: while a master of a Cluster does not respond, the keys of the others, messages and
// subscriptions work as before, and commands for its keys fail at once. When it responds again, they succeed.
func TestAShardIsLost(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]func(*redistest.Cluster, *testing.T, int){
		"killed": func(c *redistest.Cluster, _ *testing.T, i int) { c.Kill(i) },
		"frozen": func(c *redistest.Cluster, t *testing.T, i int) { c.Freeze(t, i) },
	} {
		for lost := range 3 {
			t.Run(fmt.Sprint(name, lost), func(t *testing.T) {
				t.Parallel()
				cluster := redistest.StartCluster(t)
				s := open(t, impatient(cluster.URL()))
				returned := make(chan struct{}, 1000)
				s.OnReconnect(func() { returned <- struct{}{} })
				tenants := tenantsByNode(t, cluster)
				n := 0
				claim := func(node int) error {
					n++
					_, err := s.Idempotency().Begin(t.Context(),
						&idempotency.Claim{Tenant: tenants[node], ID: fmt.Sprint(n), Token: "t", Fingerprint: "p",
							Lease: time.Hour, TTL: time.Hour, Limit: 10_000})
					return err
				}
				for node := range 3 {
					check.Must(t, claim(node))
				}
				fault(cluster, t, lost)
				check.Holds(t, "the lost shard's keys to be unavailable at once",
					func() bool { return errors.Is(claim(lost), redisstore.ErrUnavailable) })
				for range 50 {
					for node := range 3 {
						if err := claim(node); (err != nil) != (node == lost) {
							t.Fatalf("a key of node %d, while %d is lost: %v", node, lost, err)
						}
					}
				}
				if s.Unavailable() || !s.Stats().Unavailable {
					t.Error("the loss of a shard is that of Redis, or is not seen")
				}
				hears(t, s.Probe())
				if name == "frozen" {
					for len(returned) > 0 {
						<-returned
					}
					cluster.Thaw(t, lost)
					check.Received(t, returned, "the shard to come back")
					check.Must(t, claim(lost))
				}
			})
		}
	}
}

// hears checks that subscriptions start and that messages arrive, for any slots of their channels.
func hears(t *testing.T, p *redisstore.Probe) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var subscribing sync.WaitGroup
	defer check.Ended(t, &subscribing, "the subscriptions to end")
	defer cancel()
	for i := range 6 {
		channel, connected, messages := p.Channel(fmt.Sprint("c", i)), make(chan struct{}, 100), make(chan string, 100)
		subscribing.Go(func() {
			p.Subscribe(ctx, channel, func(m string) { messages <- m }, func() { connected <- struct{}{} })
		})
		check.Received(t, connected, "the subscription")
		check.Must(t, p.Publish(ctx, channel, "hello"))
		check.Received(t, messages, "a message")
	}
}

// TestARedemptionWithoutAnAnswerIsUndone: an approval whose redemption Redis has executed, but whose call does
// not run because the response was lost, can be redeemed again.
func TestARedemptionWithoutAnAnswerIsUndone(t *testing.T) {
	t.Parallel()
	for kind, url := range servers.urls {
		for _, wait := range []int{0, 1} {
			t.Run(fmt.Sprint(kind, wait), func(t *testing.T) {
				t.Parallel()
				prefix := fmt.Sprintf("cg:test-%d:", servers.tests.Add(1))
				whole := open(t, redisstore.Config{URL: url(), Prefix: prefix}).Approvals()
				w := approved(t, whole, "apr_1")
				var cutting atomic.Bool
				cut := open(t, redisstore.Config{URL: url(), Prefix: prefix, WaitReplicas: wait, WaitTimeout: soon,
					Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
						conn, err := new(net.Dialer).DialContext(ctx, network, addr)
						return &onceCutConn{Conn: conn, key: "apr_1", armed: &cutting}, err
					}}).Approvals()
				cutting.Store(true)
				if _, _, err := cut.Redeem(t.Context(), w, "apr_1", "lost"); err == nil {
					t.Fatal("a redemption without an answer succeeded")
				}
				if cutting.Load() {
					t.Fatal("no answer was cut")
				}
				check.Until(t, "the redemption to be undone", func() (bool, string) {
					state, _, err := whole.State(t.Context(), "acme", "apr_1")
					return state == approvals.Approved, fmt.Sprint(state, err)
				})
				if !runs(t, whole, w, "apr_1", "again") {
					t.Error("the approval cannot be redeemed again")
				}
			})
		}
	}
}

// onceCutConn ends once, when Redis responds to a command with a key: it has executed the command.
type onceCutConn struct {
	net.Conn

	key   string
	armed *atomic.Bool
	asks  atomic.Bool
}

func (c *onceCutConn) Write(p []byte) (int, error) {
	if c.armed.Load() && bytes.Contains(p, []byte(c.key)) {
		c.asks.Store(true)
	}
	return c.Conn.Write(p)
}

func (c *onceCutConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if err != nil || !c.asks.Load() || bytes.HasPrefix(p[:n], []byte("-NOSCRIPT")) ||
		!c.armed.CompareAndSwap(true, false) {
		return n, err
	}
	_ = c.Close()
	return 0, io.EOF
}
