package cli

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	"github.com/capgate/capgate/internal/testkit/redistest"
	docpb "github.com/capgate/capgate/proto/selu/capability"
)

// ruled is one call of a user whose rules change, with its outcome.
type ruled struct {
	gateway      int
	allowed      bool
	began, ended time.Time
}

// ruleChange is a change of her rule. No call that ended before its request may know of it.
type ruleChange struct {
	allowed     bool
	asked, done time.Time
	known       []time.Time // when every gateway had reported that it knows all changes until then
}

// learn waits until each gateway reports that it knows all changes made before now.
func (c *ruleChange) learn(t *testing.T, admins []string) {
	t.Helper()
	for _, admin := range admins {
		waitKnown(t, admin, "capgate_policy_staleness_seconds", c.done)
		c.known = append(c.known, time.Now())
	}
}

// waitKnown waits until a gateway reports, by a metric of its staleness, that it knows all changes made until
// done.
func waitKnown(t *testing.T, admin, staleness string, done time.Time) {
	t.Helper()
	check.Until(t, "a gateway to know of the change", func() (bool, string) {
		asked := time.Now()
		_, text := page(t, "http://"+admin+"/metrics")
		stale := metric(t, text, staleness)
		return asked.Add(-time.Duration(stale * float64(time.Second))).After(done), fmt.Sprintf("%v s stale", stale)
	})
}

// ruledLoad calls as two users through several gateways: ann, whose rules change, and bob, whose do not.
type ruledLoad struct {
	mu    sync.Mutex
	calls []ruled
	more  chan struct{} // closed and replaced whenever there are more
	bob   int

	end func() // ends the calls and waits for them
}

// startRuledLoad calls until end, or until the test ends.
func startRuledLoad(t *testing.T, callers int, clients []docpb.CapabilityClient) *ruledLoad {
	t.Helper()
	l := &ruledLoad{more: make(chan struct{})}
	ended, all := make(chan struct{}), new(sync.WaitGroup)
	l.end = sync.OnceFunc(func() { close(ended); check.Ended(t, all, "the calls to end") })
	check.Cleanup(t, l.end)
	for i := range callers * len(clients) {
		gateway, user := i%len(clients), [...]string{"ann", "bob"}[i/len(clients)%2]
		all.Go(func() {
			for {
				select {
				case <-ended:
					return
				case <-time.After(pace):
				}
				l.call(t, clients[gateway], gateway, user)
			}
		})
	}
	return l
}

func (l *ruledLoad) call(t *testing.T, client docpb.CapabilityClient, gateway int, user string) {
	c := ruled{gateway: gateway, began: time.Now()}
	err := as(t, client, user, gatewaytest.Echo)
	c.ended, c.allowed = time.Now(), err == nil
	if err != nil && (user == "bob" || status.Code(err) != codes.PermissionDenied) {
		t.Errorf("a call of %s: %v", user, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if user == "bob" {
		l.bob++
		return
	}
	l.calls = append(l.calls, c)
	close(l.more)
	l.more = make(chan struct{})
}

// follow waits until every gateway has decided a call that started after a change according to it.
func (l *ruledLoad) follow(t *testing.T, gateways int, c ruleChange) {
	t.Helper()
	seen, at := map[int]bool{}, 0
	check.UntilEvent(t, "all gateways to follow a change", func() (bool, map[int]bool, <-chan struct{}) {
		l.mu.Lock()
		calls, more := l.calls[at:], l.more
		l.mu.Unlock()
		for _, r := range calls {
			if r.allowed == c.allowed && r.began.After(c.asked) {
				seen[r.gateway] = true
			}
		}
		at += len(calls)
		return len(seen) == gateways, seen, more
	})
}

// check reports whether every decision matches rules that were in effect at some time during the call, or that
// its gateway could believe to be, and whether no gateway went back to older rules.
func (l *ruledLoad) check(t *testing.T, changes []ruleChange) {
	t.Helper()
	for _, r := range l.calls {
		right := false
		for i, c := range changes {
			over := i+1 < len(changes) && r.began.After(changes[i+1].known[r.gateway])
			right = right || c.allowed == r.allowed && r.ended.After(c.asked) && !over
		}
		if !right {
			t.Errorf("a call at gateway %d from %v to %v is allowed: %v", r.gateway, r.began, r.ended, r.allowed)
		}
	}
	slices.SortFunc(l.calls, func(a, b ruled) int { return a.ended.Compare(b.ended) })
	for i, c := range changes[1:] {
		followed := map[int]time.Time{}
		for _, r := range l.calls {
			since, follows := followed[r.gateway]
			switch {
			case i+2 < len(changes) && r.ended.After(changes[i+2].asked):
			case !follows && r.allowed == c.allowed && r.began.After(c.asked):
				followed[r.gateway] = r.ended
			case follows && r.began.After(since) && r.allowed != c.allowed:
				t.Errorf("gateway %d went back to earlier rules", r.gateway)
			}
		}
	}
}

// TestAPolicyChangesUnderLoad: all replicas follow, no call is lost, and every decision matches the rules.
func TestAPolicyChangesUnderLoad(t *testing.T) {
	t.Parallel()
	redis, capability := redistest.Start(t), gatewaytest.NewCapability("first")
	file := writeConfig(t, configOf("policies: {}\nredis: {url: '"+redis.URL()+"', timeout: 5s}",
		capability.Serve(t, call.Doc).Addr))
	var clients []docpb.CapabilityClient
	var admins []string
	for range 3 {
		_, public, admin := serve(t, nil, "--config", file)
		clients, admins = append(clients, dial(t, public)), append(admins, admin)
	}
	changes := []ruleChange{{allowed: true}} // by the fleet
	l := startRuledLoad(t, 6, clients)
	for _, verdict := range []string{"block", "allow", "block", "allow"} {
		c := ruleChange{allowed: verdict == "allow", asked: time.Now()}
		if exit, out, errs := capgatePolicy(t, admins[2], "set", "caps", gatewaytest.Echo, verdict, "--user",
			"ann"); exit != 0 || !strings.HasPrefix(out, verdict) {
			t.Fatalf("%d %s%s", exit, out, errs)
		}
		c.done = time.Now()
		c.learn(t, admins)
		changes = append(changes, c)
		l.follow(t, len(clients), c)
	}
	l.end()
	l.check(t, changes)
	if l.bob == 0 {
		t.Error("bob made no call")
	}
}
