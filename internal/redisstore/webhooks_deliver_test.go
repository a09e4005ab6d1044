package redisstore_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/capgate/capgate/internal/redisstore"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/policy/approvals"
	"github.com/capgate/capgate/policy/approvals/webhook"
)

const webhookSecret = "a secret of a receiver of webhooks"

// receiver accepts requests of a webhook and verifies them by the standard.
type receiver struct {
	*httptest.Server
	came chan struct{} // something changed

	mu     sync.Mutex
	answer func(requests int) int // the status for the nth request
	all    []received
}

type received struct {
	id   string
	body struct {
		Type      string
		Timestamp time.Time
		Data      struct{ ID, Arguments, State string }
	}
}

func newReceiver(t *testing.T, answer func(requests int) int) *receiver {
	t.Helper()
	r := &receiver{came: make(chan struct{}, 1), answer: answer}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		text, err := io.ReadAll(req.Body)
		id := req.Header.Get("webhook-id")
		mac := hmac.New(sha256.New, []byte(webhookSecret))
		_, _ = fmt.Fprintf(mac, "%s.%s.%s", id, req.Header.Get("webhook-timestamp"), text)
		if want := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil)); err != nil ||
			req.Header.Get("webhook-signature") != want {
			t.Errorf("signature %q, want %q, %v", req.Header.Get("webhook-signature"), want, err)
		}
		got := received{id: id}
		if err := json.Unmarshal(text, &got.body); err != nil {
			t.Errorf("body %s: %v", text, err)
		}
		r.mu.Lock()
		r.all = append(r.all, got)
		n := len(r.all)
		status := r.answer(n)
		r.mu.Unlock()
		w.WriteHeader(status)
		select {
		case r.came <- struct{}{}:
		default:
		}
	}))
	t.Cleanup(r.Close)
	return r
}

// await waits until the requests are as wanted.
func (r *receiver) await(t *testing.T, what string, is func(all []received) bool) {
	t.Helper()
	check.UntilEvent(t, what, func() (bool, string, <-chan struct{}) {
		r.mu.Lock()
		defer r.mu.Unlock()
		return is(r.all), fmt.Sprint(len(r.all), " requests came"), r.came
	})
}

func always(status int) func(int) int { return func(int) int { return status } }

// deliverer is a Deliverer that runs until the test ends, or until stop.
type deliverer struct {
	*webhook.Deliverer
	stop func()
}

func tell(t *testing.T, s *redisstore.Store, url string, c webhook.Config, o webhook.Options) *deliverer {
	t.Helper()
	c.URL, c.Secrets = url, [][]byte{[]byte(webhookSecret)}
	if o.BackoffBase == 0 {
		o.BackoffBase, o.BackoffMax = 2*time.Millisecond, 10*time.Millisecond
	}
	o.Poll = 5 * time.Millisecond
	if o.Tenants == nil {
		o.Tenants = tenants(request("").Tenant)
	}
	d, err := webhook.New(s.Notices("ops"), service(t, s, approvals.Options{}), render, c, o)
	check.Must(t, err)
	return &deliverer{d, run(t, d)}
}

// run runs a Deliverer until the test ends, or until stop.
func run(t *testing.T, d *webhook.Deliverer) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { deliver(ctx, d) })
	stop = func() { cancel(); check.Ended(t, &running, "the background work to end") }
	t.Cleanup(stop)
	return stop
}

// waitStats waits until the figures are as wanted.
func (d *deliverer) waitStats(t *testing.T, want func(webhook.Stats) bool) {
	t.Helper()
	check.Until(t, "deliveries", func() (bool, string) {
		s := d.Stats()
		return want(s), fmt.Sprintf("%+v", s)
	})
}

func TestTwoReplicasDeliverEachEventOnce(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		const n = 30
		r := newReceiver(t, always(http.StatusNoContent))
		one, two := open(), open()
		d, e := tell(t, one, r.URL, webhook.Config{}, webhook.Options{}), tell(t, two, r.URL, webhook.Config{},
			webhook.Options{})
		k := service(t, one, approvals.Options{})
		asked := map[string]bool{}
		for i := range n {
			asked[ask(t, k, request(fmt.Sprintf(`{"n":%d,"password":"hunter2"}`, i))).ID] = true
		}
		r.await(t, "all", func(all []received) bool { return len(all) >= n })
		check.Holds(t, "all to be done", func() bool {
			_, _, sizes := claim(t, one.Notices("ops"), 0, time.Hour)
			return sizes == webhook.Sizes{}
		})
		d.stop()
		e.stop()
		if a, b := d.Stats(), e.Stats(); a.Delivered+b.Delivered != n || a.Failed+b.Failed+a.Retried+b.Retried+
			a.Skipped+b.Skipped != 0 {
			t.Errorf("delivered %+v, %+v", a, b)
		}
		ids := map[string]bool{}
		for _, got := range r.all {
			if ids[got.id] = true; got.body.Type != "approval.asked" || !asked[got.body.Data.ID] ||
				got.body.Data.State != "pending" ||
				!strings.Contains(got.body.Data.Arguments, `"n"`) ||
				strings.Contains(got.body.Data.Arguments, "hunter2") {
				t.Errorf("sent %+v", got)
			}
		}
		if len(ids) != n {
			t.Errorf("%d ids", len(ids))
		}
	})
}

func TestAReceiverThatRecoversGetsItsNotices(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		r := newReceiver(t, func(requests int) int {
			if requests < 4 {
				return http.StatusInternalServerError
			}
			return http.StatusOK
		})
		s := open()
		d := tell(t, s, r.URL, webhook.Config{}, webhook.Options{})
		ask(t, service(t, s, approvals.Options{}), request(`{}`))
		d.waitStats(t, func(s webhook.Stats) bool { return s.Delivered == 1 })
		d.stop()
		if len(r.all) != 4 || d.Stats().Failed != 3 || d.Stats().Retried != 3 {
			t.Errorf("%d requests, %+v", len(r.all), d.Stats())
		}
		for _, got := range r.all {
			if got.id != r.all[0].id {
				t.Errorf("another id: %s, %s", got.id, r.all[0].id)
			}
		}
	})
}

func TestLeasedNoticesOfADeadReplicaAreDelivered(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		r := newReceiver(t, always(http.StatusOK))
		one, two := open(), open()
		put(t, one, 3, 10)
		if got, _, _ := claim(t, one.Notices("ops"), 2, 50*time.Millisecond); len(got) != 2 { // and the replica dies
			t.Fatalf("claimed %d", len(got))
		}
		ask(t, service(t, one, approvals.Options{}), request(`{"before":"anybody gathers it"}`))
		d := tell(t, two, r.URL, webhook.Config{}, webhook.Options{})
		d.waitStats(t, func(s webhook.Stats) bool { return s.Delivered == 4 })
		if d.stop(); d.Stats().Retried != 2 {
			t.Errorf("sent %+v", d.Stats())
		}
	})
}

func TestUndeliverableNoticesBecomeDeadLetters(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		r := newReceiver(t, always(http.StatusBadGateway))
		s := open()
		d := tell(t, s, r.URL+"/?token=hidden", webhook.Config{Attempts: 3}, webhook.Options{})
		a := ask(t, service(t, s, approvals.Options{}), request(`{}`))
		d.waitStats(t, func(s webhook.Stats) bool { return s.Dead == 1 })
		letters, err := s.Notices("ops").Dead(t.Context(), 0, 10)
		if err != nil || len(letters) != 1 || letters[0].Approval != a.ID || letters[0].Attempts != 3 ||
			letters[0].Reason != "HTTP status 502" {
			t.Fatalf("dead: %+v, %v", letters, err)
		}
		r.mu.Lock()
		r.answer = always(http.StatusOK)
		r.mu.Unlock()
		if ok, err := s.Notices("ops").Retry(t.Context(), letters[0].ID); !ok || err != nil {
			t.Fatalf("retried: %v, %v", ok, err)
		}
		d.waitStats(t, func(s webhook.Stats) bool { return s.Delivered == 1 })
		if d.stop(); len(r.all) != 4 || r.all[3].id != letters[0].ID {
			t.Errorf("received %+v", r.all)
		}
	})
}

func TestAGoneReceiverGetsNoFurtherRequests(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		r := newReceiver(t, always(http.StatusGone))
		s := open()
		d := tell(t, s, r.URL, webhook.Config{}, webhook.Options{})
		ask(t, service(t, s, approvals.Options{}), request(`{}`))
		d.waitStats(t, func(s webhook.Stats) bool { return s.Dead == 1 })
		if d.stop(); len(r.all) != 1 {
			t.Errorf("%d requests", len(r.all))
		}
	})
}

func TestEventsAreDeliveredToTheirDestinations(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		r := newReceiver(t, always(http.StatusOK))
		s := open()
		d := tell(t, s, r.URL, webhook.Config{Events: []approvals.Kind{approvals.EventApproved, approvals.EventUsed}},
			webhook.Options{})
		k := service(t, s, approvals.Options{})
		a := ask(t, k, request(`{}`))
		approve(t, k, a, approvals.Answer{})
		if _, refusal := k.Redeem(t.Context(), a.ID, request(`{}`)); refusal != nil {
			t.Fatal(refusal)
		}
		d.waitStats(t, func(s webhook.Stats) bool { return s.Delivered == 2 })
		d.stop()
		kinds := map[string]bool{}
		for _, got := range r.all {
			kinds[got.body.Type] = true
		}
		if len(r.all) != 2 || !kinds["approval.approved"] || !kinds["approval.used"] {
			t.Errorf("sent %+v", r.all)
		}
	})
}

func TestNoticesOfEndedApprovalsAreNotSent(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		r := newReceiver(t, always(http.StatusOK))
		s := open()
		k := service(t, s, approvals.Options{TTL: time.Millisecond})
		a := ask(t, k, request(`{}`))
		check.Holds(t, "the expiry", func() bool {
			now, err := k.Get(t.Context(), a.Tenant, a.ID)
			return err == nil && now.State == approvals.Expired
		})
		d := tell(t, s, r.URL, webhook.Config{}, webhook.Options{})
		d.waitStats(t, func(s webhook.Stats) bool { return s.Skipped == 1 })
		if d.stop(); len(r.all) != 0 {
			t.Errorf("sent %+v", r.all)
		}
	})
}

func TestAStoppedReplicaReleasesItsLeases(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		one, two := open(), open()
		reached := make(chan struct{})
		silent := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.ReadAll(r.Body) // otherwise the server does not notice that the client leaves
			close(reached)
			<-r.Context().Done()
		}))
		defer silent.Close()
		d := tell(t, one, silent.URL, webhook.Config{}, webhook.Options{})
		ask(t, service(t, one, approvals.Options{}), request(`{}`))
		check.Received(t, reached, "the request")
		d.stop()
		r := newReceiver(t, always(http.StatusOK))
		e := tell(t, two, r.URL, webhook.Config{}, webhook.Options{})
		e.waitStats(t, func(s webhook.Stats) bool { return s.Delivered == 1 })
		if e.stop(); e.Stats().Retried != 0 || d.Stats().Failed != 0 {
			t.Errorf("delivered %+v, %+v", d.Stats(), e.Stats())
		}
	})
}

// Only the Deliverer reads the approval.
func TestExpiryOfAnApprovalIsDelivered(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		r := newReceiver(t, always(http.StatusOK))
		s := open()
		a := ask(t, service(t, s, approvals.Options{TTL: time.Millisecond}), request(`{}`))
		check.Holds(t, "it to be overdue", func() bool {
			ids, err := s.Notices("ops").Overdue(t.Context(), a.Tenant, 10)
			return err == nil && len(ids) == 1 && ids[0] == a.ID
		})
		d := tell(t, s, r.URL, webhook.Config{Events: []approvals.Kind{approvals.EventExpired}}, webhook.Options{})
		d.waitStats(t, func(s webhook.Stats) bool { return s.Delivered == 1 })
		if d.stop(); len(r.all) != 1 || r.all[0].body.Type != "approval.expired" ||
			r.all[0].body.Data.State != "expired" {
			t.Errorf("sent %+v", r.all)
		}
	})
}

// deliver delivers to destinations until ctx ends.
func deliver(ctx context.Context, all ...*webhook.Deliverer) {
	group, configs := webhook.NewGroup(), make([]webhook.Config, len(all))
	for i, d := range all {
		configs[i].Name = d.Name()
	}
	_ = group.Replace(configs, func(c webhook.Config) (*webhook.Deliverer, error) { // fails only with its function
		i := slices.IndexFunc(all, func(d *webhook.Deliverer) bool { return d.Name() == c.Name })
		return all[i], nil
	})
	group.Run(ctx)
}
