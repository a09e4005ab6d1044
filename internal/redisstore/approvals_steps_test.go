package redisstore_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/capgate/capgate/internal/lib/sharedkey"
	"github.com/capgate/capgate/internal/redisstore"
	"github.com/capgate/capgate/policy/approvals"
)

// TestStepsTakenTwice: a Cluster may execute a command twice. The second execution returns the response of the
// first and has no effect.
func TestStepsTakenTwice(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		st := open().Approvals()
		d := &approvals.Draft{CallSum: approvals.Sum{1}, TTL: time.Minute, MaxOpen: 9}
		d.ID, d.Tenant, d.Tool = "apr_1", "acme", "send"
		d.Trace = "00-trace"
		for range 2 {
			if got, err := st.Create(t.Context(), d); err != nil || got.ID != "apr_1" ||
				got.State != approvals.Pending {
				t.Fatalf("ask: %+v, %v", got, err)
			}
		}
		for range 2 {
			reply := &approvals.StoredAnswer{State: approvals.Approved, Token: "t", TTL: time.Minute}
			if got, ok, err := st.Answer(t.Context(), "acme", "apr_1", reply); ok != approvals.AnswerGiven ||
				err != nil || got.State != approvals.Approved {
				t.Fatalf("answer: %+v, %v, %v", got, ok, err)
			}
		}
		for range 2 {
			if was, trace, err := st.Redeem(t.Context(), &d.Binding, "apr_1", "u"); was != approvals.Approved ||
				trace != "00-trace" || err != nil {
				t.Fatalf("use: %v, %q, %v", was, trace, err)
			}
		}
		if was, _, err := st.Redeem(t.Context(), &d.Binding, "apr_1", "v"); was != approvals.Used || err != nil {
			t.Fatalf("use by another: %v, %v", was, err)
		}
		for range 2 {
			if ok, err := st.Release(t.Context(), "acme", "apr_1", "u"); !ok || err != nil {
				t.Fatalf("release: %v, %v", ok, err)
			}
		}
		if got, err := st.Get(t.Context(), "acme", "apr_1"); err != nil || got.Changed.Before(got.Answered) ||
			!got.Updated().Equal(got.Changed) {
			t.Errorf("released at %v, answered at %v, %v", got.Changed, got.Answered, err)
		}
		var kinds []string
		events, _, err := st.Events(t.Context(), "acme", "0", 100)
		for _, e := range events {
			kinds = append(kinds, string(e.Kind))
		}
		if fmt.Sprint(kinds) != "[asked approved used released]" || err != nil {
			t.Errorf("got events %v, %v", kinds, err)
		}
	})
}

// TestAReplicaDiesWithAnApproval: the approval stays used; the call gets a new one.
func TestAReplicaDiesWithAnApproval(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		one, dying := service(t, open(), approvals.Options{}), open()
		r := request("{}")
		a := approve(t, one, ask(t, one, r), approvals.Answer{})
		if _, refusal := service(t, dying, approvals.Options{}).Redeem(t.Context(), a.ID, r); refusal != nil {
			t.Fatal(refusal)
		}
		dying.Close()
		_, refusal := one.Redeem(t.Context(), a.ID, r)
		wantRefusal(t, "of one that died", refusal, "APPROVAL_USED")
		if b := ask(t, one, r); b.ID == a.ID || b.State != approvals.Pending {
			t.Errorf("asked again: %+v", b)
		}
	})
}

// TestArgumentsAreNotStoredOrLogged: arguments are not in logs, errors or refusals, and with an encryption key not in
// Redis.
func TestArgumentsAreNotStoredOrLogged(t *testing.T) {
	t.Parallel()
	const planted = "canary-in-the-arguments"
	log := &lines{}
	s := open(t, redisstore.Config{
		Log: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	k, st := service(t, s, approvals.Options{Keys: [][]byte{bytes.Repeat([]byte{7}, sharedkey.Bytes)}}),
		s.Approvals()
	r := request(`{"to":"` + planted + `"}`)
	a := ask(t, k, r)
	if !strings.Contains(a.Preview, planted) {
		t.Errorf("the approver does not see %s", a.Preview)
	}
	var said []error
	use := func() {
		if _, refusal := k.Redeem(t.Context(), a.ID, r); refusal != nil {
			said = append(said, refusal, errors.New(fmt.Sprint(refusal.Metadata)))
		}
	}
	use()
	other := *r
	other.Args = []byte(`"` + planted + `"`)
	_, mismatch := k.Redeem(t.Context(), a.ID, &other)
	said = append(said, mismatch, errors.New(fmt.Sprint(mismatch.Metadata)))
	approve(t, k, a, approvals.Answer{})
	_, again := k.Approve(t.Context(), a.Tenant, a.ID, approvals.Answer{})
	said = append(said, again)
	use()
	use()
	var stored []string
	keys, err := st.Keys(t.Context(), "*")
	if err != nil || len(keys) < 3 {
		t.Fatal(keys, err)
	}
	if err := st.Do(t.Context(), func(ctx context.Context, c redis.Cmdable) error {
		record, err := c.HGetAll(ctx, st.RecordKey(a.Tenant, a.ID)).Result()
		events, wrong := c.XRange(ctx, strings.Replace(st.RecordKey(a.Tenant, ""), "record:", "events", 1), "-",
			"+").Result()
		stored = append(keys, fmt.Sprint(record, events))
		if len(events) != 3 {
			t.Errorf("%d events", len(events))
		}
		return errors.Join(err, wrong)
	}); err != nil {
		t.Fatal(err)
	}
	if err := st.Do(t.Context(), func(ctx context.Context, c redis.Cmdable) error {
		return c.HSet(ctx, st.RecordKey(a.Tenant, a.ID), "state", planted).Err()
	}); err != nil {
		t.Fatal(err)
	}
	use() // malformed
	if all := fmt.Sprint(said, log.String(), stored, k.Stats(), s.Stats()); strings.Contains(all, planted) ||
		len(said) < 7 || !strings.Contains(all, "malformed") {
		t.Errorf("%d refusals: %s", len(said), all)
	}
}
