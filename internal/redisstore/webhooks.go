package redisstore

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/capgate/capgate/policy/approvals"
	"github.com/capgate/capgate/policy/approvals/webhook"
)

var (
	putScript           = newScript("webhooks_put")
	leaseDueScript      = newScript("webhooks_lease")
	doneScript          = newScript("webhooks_done")
	rescheduleScript    = newScript("webhooks_reschedule")
	deadLetterScript    = newScript("webhooks_dead_letter")
	deadScript          = newScript("webhooks_dead")
	retryScript         = newScript("webhooks_retry")
	overdueScript       = newScript("webhooks_overdue")
	webhookEventsScript = newScript("webhooks_events")
)

// Webhooks is the outbox of events, with the dead letters. It is a webhook.Store.
type Webhooks struct {
	client
	name  string        // of the destination
	began time.Duration // age of the oldest events that a new tenant's deliveries include
}

// Notices returns the outbox of a destination.
func (s *Store) Notices(name string) *Webhooks {
	return &Webhooks{s.client(Approvals), name, time.Minute}
}

func (w *Webhooks) scriptKeys() []string {
	return w.keys([]string{w.name}, "{webhooks:DESTINATION}:cursors", "{webhooks:DESTINATION}:due",
		"{webhooks:DESTINATION}:entries", "{webhooks:DESTINATION}:claims", "{webhooks:DESTINATION}:dead",
		"{webhooks:DESTINATION}:letters")
}

// Watch implements webhook.Store.
func (w *Webhooks) Watch(ctx context.Context, changed func(tenant string, kind approvals.Kind), connected func()) {
	w.watchApprovals(ctx, func(tenant, _ string, kind approvals.Kind, _ string) { changed(tenant, kind) }, connected)
}

// Overdue implements webhook.Store.
func (w *Webhooks) Overdue(ctx context.Context, tenant string, most int) ([]string, error) {
	return w.run(ctx, overdueScript, w.keys([]string{tenant}, "{TENANT:approvals}:open"), most).StringSlice()
}

// Cursors implements webhook.Store.
func (w *Webhooks) Cursors(ctx context.Context, tenants []string) (all map[string]string, err error) {
	if tenants == nil {
		return fetch(ctx, w.client, redis.Cmdable.HGetAll, w.scriptKeys()[0])
	}
	all, r := map[string]string{}, w.values(ctx, w.scriptKeys()[0], tenants...)
	for _, tenant := range tenants {
		if cursor := r.text(); cursor != "" {
			all[tenant] = cursor
		}
	}
	return all, r.end()
}

// Read implements webhook.Store.
func (w *Webhooks) Read(
	ctx context.Context, tenant, after string, most int,
) (events []webhook.Event, next string, err error) {
	key := w.key("{TENANT:approvals}:events", tenant)
	r := w.read(ctx, webhookEventsScript, []string{key}, after, most, w.began.Milliseconds())
	next = r.text()
	for list := r.list(); list.more(); {
		id, kind, approval := list.text(), list.text(), list.text()
		e := webhook.Event{ID: w.idOf(tenant, id, approval), Tenant: tenant, Approval: approval,
			Kind: approvals.Kind(kind)}
		ms, _, _ := strings.Cut(id, "-")
		if !parseMillis(&e.At, ms) {
			w.malformed(key)
			continue
		}
		events = append(events, e)
	}
	return events, next, r.end()
}

// idOf is the same for the same event and destination at every replica.
func (w *Webhooks) idOf(tenant, event, approval string) string {
	words := []string{tenant, event, approval}
	if w.name != "" {
		words = append(words, w.name)
	}
	sum := sha256.Sum256([]byte(joinWords(words)))
	return "msg_" + base32.StdEncoding.EncodeToString(sum[:])[:26]
}

// eventText encodes an event for the entries.
func eventText(e *webhook.Event) string {
	of := e.Approval
	if e.Kind == webhook.NearLimit {
		of = e.Limit
	}
	return joinWords([]string{e.Tenant, of, string(e.Kind), strconv.FormatInt(e.At.UnixMilli(), 10)})
}

// eventOf parses an encoded event.
func eventOf(id string, all []string) (webhook.Event, bool) {
	e := webhook.Event{ID: id, Tenant: all[0], Approval: all[1], Kind: approvals.Kind(all[2])}
	if e.Kind == webhook.NearLimit {
		e.Approval, e.Limit = "", all[1]
	}
	return e, parseMillis(&e.At, all[3])
}

// Put implements webhook.Store.
func (w *Webhooks) Put(
	ctx context.Context, tenant, after, next string, events []webhook.Event, most int,
) (dropped int, err error) {
	args := []any{tenant, after, next, most}
	for i := range events {
		args = append(args, events[i].ID, eventText(&events[i]))
	}
	return droppedOf(w.run(ctx, putScript, w.scriptKeys(), args...).Int())
}

// Lease implements webhook.Store.
func (w *Webhooks) Lease(
	ctx context.Context, most int, lease time.Duration,
) (taken []webhook.Entry, again time.Duration, sizes webhook.Sizes, err error) {
	token := rand.Text()
	r := w.read(ctx, leaseDueScript, w.scriptKeys(), token, most, lease.Milliseconds())
	sizes = webhook.Sizes{Queued: int(r.int()), Dead: int(r.int())}
	for range r.int() {
		w.malformed(w.scriptKeys()[2])
	}
	again = max(0, r.millis())
	for list := r.list(); list.more(); {
		id, text, tries := list.text(), list.text(), list.int()
		all, ok := splitWords(text, 4)
		if ok {
			var e webhook.Event
			if e, ok = eventOf(id, all); ok {
				taken = append(taken, webhook.Entry{Event: e, Attempts: int(max(tries, -tries)), Retried: tries < 0,
					Lease: token})
			}
		}
		if !ok {
			w.malformed(w.scriptKeys()[2])
			_ = w.Done(ctx, id) // otherwise it is retried after the lease
		}
	}
	return taken, again, sizes, r.end()
}

// Done implements webhook.Store.
func (w *Webhooks) Done(ctx context.Context, id string) error {
	return w.run(ctx, doneScript, w.scriptKeys(), id).Err()
}

// Reschedule implements webhook.Store.
func (w *Webhooks) Reschedule(ctx context.Context, e *webhook.Entry, wait time.Duration) error {
	attempts := strconv.Itoa(e.Attempts)
	if e.Retried && e.Attempts == 0 {
		attempts = "00"
	}
	return w.run(ctx, rescheduleScript, w.scriptKeys(), e.ID, e.Lease, attempts, wait.Milliseconds()).Err()
}

// DeadLetter implements webhook.Store.
func (w *Webhooks) DeadLetter(ctx context.Context, e *webhook.Entry, why string, most int) (dropped int, err error) {
	return droppedOf(w.run(ctx, deadLetterScript, w.scriptKeys(), e.ID, e.Lease,
		joinWords([]string{strconv.Itoa(e.Attempts), why}),
		most).Int())
}

// droppedOf parses the number of dropped entries, or webhook.ErrMoved.
func droppedOf(n int, err error) (int, error) {
	if err == nil && n < 0 {
		return 0, webhook.ErrMoved
	}
	return n, err
}

// Dead implements webhook.Store.
func (w *Webhooks) Dead(ctx context.Context, skip, most int) (letters []webhook.Letter, err error) {
	r := w.read(ctx, deadScript, w.scriptKeys(), skip, most)
	for r.more() {
		l := letterOf(r.text(), r.text(), r.text())
		if l.Malformed {
			w.malformed(w.scriptKeys()[5])
		}
		letters = append(letters, l)
	}
	return letters, r.end()
}

// letterOf decodes a dead letter.
func letterOf(id, died, text string) (l webhook.Letter) {
	dated := parseMillis(&l.Died, died)
	malformed := webhook.Letter{Event: webhook.Event{ID: id}, Died: l.Died, Malformed: true}
	all, ok := splitWords(text, 6)
	if !ok || !dated {
		return malformed
	}
	var err error
	if l.Event, ok = eventOf(id, all[:4]); !ok {
		return malformed
	}
	if l.Attempts, err = strconv.Atoi(all[4]); err != nil {
		return malformed
	}
	l.Reason = all[5]
	return l
}

// Retry implements webhook.Store.
func (w *Webhooks) Retry(ctx context.Context, id string) (bool, error) {
	n, err := w.run(ctx, retryScript, w.scriptKeys(), id).Int()
	return n == 1, err
}

var _ webhook.Store = (*Webhooks)(nil)
