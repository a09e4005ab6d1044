package redisstore_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/capgate/capgate/internal/redisstore"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/clocktest"
	"github.com/capgate/capgate/policy/approvals"
	"github.com/capgate/capgate/policy/approvals/webhook"
)

// globex is a tenant besides that of request.
const globex = "globex"

// TestDestinationOfSomeTenants: a destination gets the events of its tenants, and of no other.
func TestDestinationOfSomeTenants(t *testing.T) {
	t.Parallel()
	r, s := newReceiver(t, always(http.StatusOK)), open(t, redisstore.Config{})
	k := service(t, s, approvals.Options{})
	theirs := request(`{}`)
	theirs.Tenant = globex
	ask(t, k, request(`{}`))
	a := ask(t, k, theirs)
	d := tell(t, s, r.URL, webhook.Config{Tenants: []string{globex}},
		webhook.Options{Tenants: tenants(globex, request("").Tenant)})
	d.waitStats(t, func(s webhook.Stats) bool { return s.Delivered == 1 })
	d.stop()
	_, _, left := claim(t, s.Notices("ops"), 0, time.Hour)
	if len(r.all) != 1 || r.all[0].body.Data.ID != a.ID || left != (webhook.Sizes{}) {
		t.Errorf("delivered %+v; left %+v", r.all, left)
	}
}

// unnotifiedStore is a store whose notifications of events are lost. A send to connected is a new connection.
type unnotifiedStore struct {
	webhook.Store
	connected chan struct{}
}

func (d *unnotifiedStore) Watch(ctx context.Context, _ func(string, approvals.Kind), connected func()) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-d.connected:
			connected()
		}
	}
}

// TestDestinationWithoutNotification: the first event of a tenant is delivered even if its notification was lost.
func TestDestinationWithoutNotification(t *testing.T) {
	t.Parallel()
	r, s := newReceiver(t, always(http.StatusOK)), open(t, redisstore.Config{})
	store := &unnotifiedStore{Store: s.Notices("ops"), connected: make(chan struct{}, 1)}
	listed := make(chan struct{}, 10)
	d, err := webhook.New(store, service(t, s, approvals.Options{}), render,
		webhook.Config{URL: r.URL, Secrets: [][]byte{[]byte(webhookSecret)}},
		webhook.Options{Poll: time.Millisecond, Tenants: func(ctx context.Context, after string, most int) (
			[]string, string, error) {
			defer func() { listed <- struct{}{} }()
			return tenants(globex)(ctx, after, most)
		}})
	check.Must(t, err)
	run(t, d)
	check.Received(t, listed, "the list of tenants at the start")
	theirs := request(`{}`)
	theirs.Tenant = globex
	ask(t, service(t, s, approvals.Options{}), theirs)
	store.connected <- struct{}{}
	r.await(t, "the first event of a tenant", func(all []received) bool { return len(all) == 1 })
}

// notifiedStore is a store that reports when its notifications have started.
type notifiedStore struct {
	webhook.Store
	began chan struct{}
}

func (h *notifiedStore) Watch(ctx context.Context, notify func(string, approvals.Kind), connected func()) {
	h.Store.Watch(ctx, notify, func() { connected(); h.began <- struct{}{} })
}

// TestDestinationOfExpired: a destination of expired approvals only receives those of a tenant for which it
// never received any.
func TestDestinationOfExpired(t *testing.T) {
	t.Parallel()
	r, s, now := newReceiver(t, always(http.StatusOK)), open(t, redisstore.Config{}), clocktest.New(time.Now())
	k := service(t, s, approvals.Options{TTL: time.Millisecond})
	store := &notifiedStore{Store: s.Notices("ops"), began: make(chan struct{}, 10)}
	d, err := webhook.New(store, k, render, webhook.Config{URL: r.URL, Secrets: [][]byte{[]byte(webhookSecret)},
		Events: []approvals.Kind{approvals.EventExpired}}, webhook.Options{Poll: time.Millisecond, Now: now.Now})
	check.Must(t, err)
	run(t, d)
	check.Received(t, store.began, "the start of the notifications")
	theirs := request(`{}`)
	theirs.Tenant = globex
	ask(t, k, theirs)
	check.Until(t, "the destination to know the tenant, with something overdue", func() (bool, string) {
		cursors, err := s.Notices("ops").Cursors(t.Context(), []string{globex})
		overdue, failed := s.Notices("ops").Overdue(t.Context(), globex, 10)
		return cursors[globex] != "" && len(overdue) == 1, fmt.Sprint(cursors, err, overdue, failed)
	})
	now.Add(time.Minute) // a scan is due
	r.await(t, "what has expired", func(all []received) bool { return len(all) == 1 })
}

// tenants lists some tenants on one page.
func tenants(all ...string) approvals.Tenants {
	return func(context.Context, string, int) ([]string, string, error) { return all, "", nil }
}

func render(a *approvals.Approval) ([]byte, error) {
	return json.Marshal(map[string]string{"id": a.ID, "arguments": a.Preview, "state": a.State.String()})
}

// TestDestinationLosesATenant: pending notices of a destination are not sent after the configuration has
// removed their tenant from it, also if an operator resends the dead letter.
func TestDestinationLosesATenant(t *testing.T) {
	t.Parallel()
	r, s := newReceiver(t, always(http.StatusBadGateway)), open(t, redisstore.Config{})
	c := webhook.Config{Attempts: 1000}
	d := tell(t, s, r.URL, c, webhook.Options{})
	ask(t, service(t, s, approvals.Options{}), request(`{}`))
	d.waitStats(t, func(s webhook.Stats) bool { return s.Failed > 0 })
	c.URL, c.Secrets, c.Tenants = r.URL, [][]byte{[]byte(webhookSecret)}, []string{globex}
	check.Must(t, d.Set(c))
	d.waitStats(t, func(s webhook.Stats) bool { return s.Dead == 1 })
	requests := d.Stats().Failed
	letters, err := s.Notices("ops").Dead(t.Context(), 0, 10)
	if err != nil || len(letters) != 1 || letters[0].Reason != "the destination no longer gets events of this tenant" {
		t.Fatalf("got %+v, %v", letters, err)
	}
	if ok, err := s.Notices("ops").Retry(t.Context(), letters[0].ID); !ok || err != nil {
		t.Fatalf("got %v, %v", ok, err)
	}
	d.waitStats(t, func(s webhook.Stats) bool { return s.Dead == 2 })
	if now := d.Stats(); now.Failed != requests || now.Delivered != 0 {
		t.Errorf("%d requests, then %+v", requests, now)
	}
}

// faulty is a store whose first request for cursors fails. It reports how long entries are leased.
type faulty struct {
	webhook.Store
	failed atomic.Bool
	leases chan time.Duration
}

func (f *faulty) Cursors(ctx context.Context, tenants []string) (map[string]string, error) {
	if !f.failed.Swap(true) {
		return nil, errors.New("not now")
	}
	return f.Store.Cursors(ctx, tenants)
}

func (f *faulty) Lease(ctx context.Context, most int, lease time.Duration) ([]webhook.Entry, time.Duration,
	webhook.Sizes, error) {
	select {
	case f.leases <- lease:
	default:
	}
	return f.Store.Lease(ctx, most, lease)
}

// Watch reports no connection, after which a Deliverer looks for the events of all tenants.
func (f *faulty) Watch(ctx context.Context, notify func(tenant string, kind approvals.Kind), _ func()) {
	f.Store.Watch(ctx, notify, func() {})
}

// TestDestinationAfterAFault: events that could not be listed at first are delivered, with a lease that is
// longer than a request, and signed with the time of the request.
func TestDestinationAfterAFault(t *testing.T) {
	t.Parallel()
	times := make(chan string, 10)
	r := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		times <- req.Header.Get("webhook-timestamp")
	}))
	t.Cleanup(r.Close)
	s, now := open(t, redisstore.Config{}), clocktest.New(time.Unix(2_000_000_000, 0))
	k := service(t, s, approvals.Options{})
	store := &faulty{Store: s.Notices("ops"), leases: make(chan time.Duration, 1)}
	ask(t, k, request(`{}`))
	c := webhook.Config{URL: r.URL, Secrets: [][]byte{[]byte(webhookSecret)}, Timeout: time.Minute}
	d, err := webhook.New(store, k, render, c, webhook.Options{Poll: time.Millisecond, Now: now.Now,
		Tenants: tenants(request("").Tenant)})
	check.Must(t, err)
	run(t, d)
	if lease := check.Received(t, store.leases, "a lease"); lease <= c.Timeout {
		t.Errorf("a lease of %v for a request of %v", lease, c.Timeout)
	}
	if at := check.Received(t, times, "the request"); at != strconv.FormatInt(now.Now().Unix(), 10) {
		t.Errorf("the time of a request is %s", at)
	}
}
