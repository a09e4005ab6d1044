package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/capgate/capgate/internal/redisstore"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/policy/approvals"
	"github.com/capgate/capgate/policy/approvals/notice"
	"github.com/capgate/capgate/policy/approvals/webhook"
)

// TestEventsOfQuotasAreKept: an event of a quota has no cursor, and keeps its text as an entry, as a dead letter and
// after a retry.
func TestEventsOfQuotasAreKept(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		w := open().Notices("ops")
		e := webhook.Event{ID: "msg_1", Tenant: "acme", Kind: webhook.NearLimit, Limit: `{"text":"a: b, 80%"}`,
			At: time.UnixMilli(1_700_000_000_123)}
		dropped, err := w.Put(t.Context(), e.Tenant, "", "", []webhook.Event{e}, 10)
		check.Must(t, err)
		entries, _, _ := claim(t, w, 10, time.Minute)
		if dropped != 0 || len(entries) != 1 || entries[0].Event != e {
			t.Fatalf("dropped %d; leased %+v, want %+v", dropped, entries, e)
		}
		if cursors, err := w.Cursors(t.Context(), nil); len(cursors) != 0 || err != nil {
			t.Errorf("cursors %v, %v", cursors, err)
		}
		_, err = w.DeadLetter(t.Context(), &entries[0], "gone", 10)
		check.Must(t, err)
		letters, err := w.Dead(t.Context(), 0, 10)
		if err != nil || len(letters) != 1 || letters[0].Event != e || letters[0].Type() != "limit.near" {
			t.Fatalf("dead: %+v, %v", letters, err)
		}
		if found, err := w.Retry(t.Context(), e.ID); !found || err != nil {
			t.Fatal(found, err)
		}
		if entries, _, _ = claim(t, w, 10, time.Minute); len(entries) != 1 || entries[0].Event != e {
			t.Errorf("retried %+v", entries)
		}
	})
}

// lateStore is a store whose Put fails until it is called for the second time.
type lateStore struct {
	webhook.Store
	mu   sync.Mutex
	puts int
}

func (s *lateStore) Put(ctx context.Context, tenant, after, next string, events []webhook.Event, most int) (int,
	error) {
	s.mu.Lock()
	s.puts++
	first := s.puts == 1
	s.mu.Unlock()
	if first {
		return 0, errors.New("away")
	}
	return s.Store.Put(ctx, tenant, after, next, events, most)
}

// TestEventsOfQuotasAreDelivered: destinations that get events of quotas receive them once, for programs and for
// people, also if the store was away; others, and those of other tenants, receive nothing.
func TestEventsOfQuotasAreDelivered(t *testing.T) {
	t.Parallel()
	posts := make(chan string, 10)
	web := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		posts <- r.URL.Path + " " + string(body)
	}))
	t.Cleanup(web.Close)
	s, group := open(t, redisstore.Config{}), webhook.NewGroup()
	near := []approvals.Kind{webhook.NearLimit}
	check.Must(t, group.Replace([]webhook.Config{
		{Name: "programs", URL: web.URL + "/programs", Secrets: [][]byte{[]byte(webhookSecret)}, Events: near},
		{Name: "people", URL: web.URL + "/people", Format: webhook.Slack, Events: near, Tenants: []string{"acme"}},
		{Name: "asked", URL: web.URL + "/asked", Format: webhook.Slack},
		{Name: "globex", URL: web.URL + "/globex", Format: webhook.Slack, Events: near, Tenants: []string{globex}},
	}, func(c webhook.Config) (*webhook.Deliverer, error) {
		return webhook.New(&lateStore{Store: s.Notices(c.Name)}, service(t, s, approvals.Options{}), render, c,
			webhook.Options{Poll: 5 * time.Millisecond})
	}))
	group.NearLimit(&notice.Limit{Tenant: "acme", Text: "acme has used 80% of its 10 calls a day", Limit: "per_day",
		Period: "2026-11-29", Used: 8, Max: 10})
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { group.Run(ctx) })
	t.Cleanup(func() { stop(); check.Ended(t, &running, "the background work to end") })
	got := map[string]string{}
	for range 2 {
		path, body, _ := strings.Cut(check.Received(t, posts, "an event"), " ")
		got[path] = body
	}
	const data = `"data":{"tenant":"acme","text":"acme has used 80% of its 10 calls a day","limit":"per_day",` +
		`"period":"2026-11-29","used":8,"max":10}`
	if b := got["/programs"]; !strings.HasPrefix(b, `{"type":"limit.near",`) || !strings.Contains(b, data) {
		t.Errorf("for programs: %s", b)
	}
	if b := got["/people"]; !strings.Contains(b, "A tenant is near a limit") || !strings.Contains(b, "8 of 10") {
		t.Errorf("for people: %s", b)
	}
	for _, d := range group.All() {
		check.Until(t, "the outbox to be empty", func() (bool, string) {
			s := d.Stats()
			_, wanted := got["/"+d.Name()]
			return s.Sizes == (webhook.Sizes{}) && (s.Delivered > 0) == wanted, fmt.Sprint(s)
		})
		if n := d.Stats().Dropped; n != 0 {
			t.Errorf("%s has dropped %d events", d.Name(), n)
		}
	}
	if len(posts) > 0 {
		t.Errorf("another event: %s", <-posts)
	}
}
