package redisstore_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/redisstore"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/toolschema"
	"github.com/capgate/capgate/policy/approvals"
	"github.com/capgate/capgate/policy/approvals/storetest"
)

// service is the approvals.Service of one replica.
func service(t *testing.T, s *redisstore.Store, o approvals.Options) *approvals.Service {
	t.Helper()
	k, err := approvals.New(s.Approvals(), o)
	check.Must(t, err)
	return k
}

// request is a call with names that have a meaning in Redis or in keys.
func request(args string) *approvals.Request {
	return &approvals.Request{
		Tenant: "ac:{me}%", User: "ann:{1}\xff", Agent: "a\nb", Capability: "mail", Tool: "send", Session: "s 1",
		Description: "Sends a letter.", Schema: toolschema.Hash{1, 2}, Args: []byte(args), RequestID: "r1",
		Level: "tenant", Why: "it is far",
	}
}

func ask(t *testing.T, k *approvals.Service, r *approvals.Request) approvals.Approval {
	t.Helper()
	a, granted, refusal := k.Create(t.Context(), r)
	if refusal != nil || granted {
		t.Fatalf("asked: %v, granted %v", refusal, granted)
	}
	return a
}

func approve(t *testing.T, k *approvals.Service, a approvals.Approval, answer approvals.Answer) approvals.Approval {
	t.Helper()
	a, err := k.Approve(t.Context(), a.Tenant, a.ID, answer)
	check.Must(t, err)
	return a
}

// wantRefusal requires a reason; "" means no refusal.
func wantRefusal(t *testing.T, what string, got *call.Refusal, reason string) {
	t.Helper()
	if got == nil && reason != "" || got != nil && got.Reason != reason {
		t.Errorf("%s: got %v, want %q", what, got, reason)
	}
}

func TestApprovals(t *testing.T) {
	runContract(t, storetest.Suite(), func(s *redisstore.Store) approvals.Store { return s.Approvals() })
}

func TestAnApprovalIsUsedOnce(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		one, two := service(t, open(), approvals.Options{}), service(t, open(), approvals.Options{})
		r := request(`{"to": "bob", "n": 1.0}`)
		a := ask(t, one, r)
		if a.State != approvals.Pending || a.Tenant != r.Tenant || a.User != r.User || a.Agent != r.Agent ||
			a.Tool != "send" || a.Schema != r.Schema ||
			a.Session != r.Session || a.Description != r.Description || a.RequestID != "r1" || a.Level != "tenant" ||
			a.Why != "it is far" {
			t.Errorf("asked: %+v", a)
		}
		if a.Expires.Sub(a.Created) != 10*time.Minute || time.Since(a.Created).Abs() > time.Hour ||
			!a.Answered.IsZero() {
			t.Errorf("times: %+v", a)
		}
		if a.Preview != "{\n  \"n\": 1.0,\n  \"to\": \"bob\"\n}" {
			t.Errorf("preview: %s", a.Preview)
		}
		again := request(`{"n":1.0,"to":"bob"}`) // the same arguments in another order
		if b := ask(t, two, again); b.ID != a.ID {
			t.Errorf("the same call was asked about twice: %s, %s", a.ID, b.ID)
		}
		if b := ask(t, two, request(`{"n":2,"to":"bob"}`)); b.ID == a.ID {
			t.Error("another call has the same approval")
		}
		_, refusal := two.Redeem(t.Context(), a.ID, r)
		wantRefusal(t, "pending", refusal, "APPROVAL_PENDING")
		done := approve(t, two, a, approvals.Answer{By: "eve", Comment: "fine"})
		if done.State != approvals.Approved || done.By != "eve" || done.Comment != "fine" || done.Answered.IsZero() ||
			done.Expires.Before(a.Expires) {
			t.Errorf("approved: %+v", done)
		}
		if got, err := one.Get(t.Context(), a.Tenant, a.ID); err != nil || !reflect.DeepEqual(got, done) {
			t.Errorf("got %+v, %v; want %+v", got, err, done)
		}
		if b := ask(t, one, r); b.ID != a.ID || b.State != approvals.Approved {
			t.Errorf("asked when approved: %+v", b)
		}
		used, refusal := one.Redeem(t.Context(), a.ID, again)
		wantRefusal(t, "approved", refusal, "")
		_, refusal = two.Redeem(t.Context(), a.ID, r)
		wantRefusal(t, "used", refusal, "APPROVAL_USED")
		if b := ask(t, one, r); b.ID == a.ID {
			t.Error("a used approval is not for the next call")
		}
		if err := one.Release(t.Context(), approvals.Redemption{Tenant: a.Tenant, ID: a.ID}); !errors.Is(err,
			approvals.ErrNotUsed) {
			t.Errorf("released by another: %v", err)
		}
		if err := one.Release(t.Context(), used); err != nil {
			t.Errorf("released: %v", err)
		}
		_, refusal = two.Redeem(t.Context(), a.ID, r)
		wantRefusal(t, "released", refusal, "")
		if err := one.Release(t.Context(), used); !errors.Is(err, approvals.ErrNotUsed) {
			t.Errorf("released when another has it: %v", err)
		}
	})
}

// TestAChangedFieldNeverConsumes: a call that differs in any field does not redeem the approval.
func TestAChangedFieldNeverConsumes(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		k := service(t, open(), approvals.Options{})
		r := request(`{"id":9007199254740992}`)
		r.Config = []byte(`{"mode":"dry"}`)
		a := ask(t, k, r)
		approve(t, k, a, approvals.Answer{})
		for word, change := range map[string]func(*approvals.Request){
			"user":        func(r *approvals.Request) { r.User = "bob" },
			"agent":       func(r *approvals.Request) { r.Agent = "" },
			"capability":  func(r *approvals.Request) { r.Capability = "Mail" },
			"tool":        func(r *approvals.Request) { r.Tool = "send " },
			"schema":      func(r *approvals.Request) { r.Schema[31] = 1 },
			"arguments":   func(r *approvals.Request) { r.Args = []byte(`{"id":9007199254740993}`) },
			"session":     func(r *approvals.Request) { r.Session = "s 2" },
			"thread":      func(r *approvals.Request) { r.Thread = "t" },
			"config_json": func(r *approvals.Request) { r.Config, r.Settings = []byte(`{"mode":"wet"}`), nil },
		} {
			other := *r
			change(&other)
			_, refusal := k.Redeem(t.Context(), a.ID, &other)
			wantRefusal(t, word, refusal, "APPROVAL_MISMATCH")
			if refusal != nil && (refusal.Metadata["differs"] != word || refusal.Metadata["approval"] != a.ID ||
				refusal.Kind != call.PermissionDenied) {
				t.Errorf("%s: %+v", word, refusal)
			}
			if b := ask(t, k, &other); b.ID == a.ID {
				t.Errorf("%s: the other call has the same approval", word)
			}
		}
		other := *r
		other.Tenant = "other"
		_, refusal := k.Redeem(t.Context(), a.ID, &other)
		wantRefusal(t, "tenant", refusal, "APPROVAL_UNKNOWN")
		for _, id := range []string{"", "apr_", a.ID + "A", strings.ToLower(a.ID), "apr_" + strings.Repeat("A", 26),
			"}:x"} {
			_, refusal := k.Redeem(t.Context(), id, r)
			wantRefusal(t, id, refusal, "APPROVAL_UNKNOWN")
		}
		_, refusal = k.Redeem(t.Context(), a.ID, r)
		wantRefusal(t, "the call", refusal, "")
	})
}

// TestADenialHolds: a denial cannot be changed, and its comment reaches the caller without characters that hide
// or reorder text.
func TestADenialHolds(t *testing.T) {
	const comment, shown = "no\u202e\u200b\x1b[2J\x00 thanks", "no\ufffd\ufffd\ufffd[2J\ufffd thanks"
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		k := service(t, open(), approvals.Options{})
		r := request(`{}`)
		a := ask(t, k, r)
		if d, err := k.Deny(t.Context(), a.Tenant, a.ID, approvals.Answer{By: "eve", Comment: comment}); err != nil ||
			d.State != approvals.Denied || d.Comment != shown {
			t.Fatalf("got %+v, %v", d, err)
		}
		_, _, refusal := k.Create(t.Context(), r)
		wantRefusal(t, "asked again", refusal, "APPROVAL_DENIED")
		_, refusal = k.Redeem(t.Context(), a.ID, r)
		wantRefusal(t, "used", refusal, "APPROVAL_DENIED")
		if refusal.Metadata["comment"] != shown || !strings.HasSuffix(refusal.Message, ": "+shown) {
			t.Errorf("got %q, %q", refusal.Message, refusal.Metadata)
		}
		var late *call.Refusal
		if got, err := k.Approve(t.Context(), a.Tenant, a.ID, approvals.Answer{}); !errors.As(err, &late) ||
			late.Reason != "APPROVAL_NOT_PENDING" ||
			late.Metadata["state"] != "denied" || got.By != "eve" {
			t.Errorf("answered twice, by %q: %v, want by eve, and that it is denied: %#v", got.By, err, late)
		}
		if _, err := k.Approve(t.Context(), a.Tenant, "apr_"+rand.Text(), approvals.Answer{}); !errors.As(err, &late) ||
			late.Kind != call.NotFound {
			t.Errorf("answered what there is not: %v, want that it is not found: %#v", err, late)
		}
	})
}

func TestNoAnswerInTime(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		s := open()
		short, long := service(t, s, approvals.Options{TTL: 30 * time.Millisecond}), service(t, s, approvals.Options{})
		r := request(`{}`)
		a := ask(t, short, r)
		over, err := long.Wait(check.Context(t), a.Tenant, a.ID)
		if err != nil || over.State != approvals.Expired {
			t.Fatalf("got %+v, %v", over, err)
		}
		_, refusal := long.Redeem(t.Context(), a.ID, r)
		wantRefusal(t, "nobody answered", refusal, "APPROVAL_EXPIRED")
		if _, err := long.Approve(t.Context(), a.Tenant, a.ID, approvals.Answer{}); err == nil {
			t.Error("approved when it was over")
		}
		b := ask(t, long, r)
		if b.ID == a.ID {
			t.Error("asked again, but got what is over")
		}
		approve(t, short, b, approvals.Answer{})
		check.Until(t, "an approval that nobody uses to end", func() (bool, string) {
			got, err := long.Get(t.Context(), b.Tenant, b.ID)
			return err == nil && got.State == approvals.Expired, fmt.Sprint(got, err)
		})

		_, refusal = long.Redeem(t.Context(), b.ID, r)
		wantRefusal(t, "nobody used it", refusal, "APPROVAL_EXPIRED")
		if n := short.Stats().Expired + long.Stats().Expired; n < 2 {
			t.Errorf("%d expired", n)
		}
	})
}

// TestRedeemedTooLate: an expired approval cannot be redeemed, even if it was not read since.
func TestRedeemedTooLate(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		s, r, ttl := open(), request(`{}`), 30*time.Millisecond
		k := service(t, s, approvals.Options{TTL: ttl})
		a := ask(t, k, r)
		approved, err := k.Approve(t.Context(), a.Tenant, a.ID, approvals.Answer{})
		for err != nil {
			awaitState(t, k, a, approvals.Expired) // on a busy machine, for no other reason
			if ttl *= 2; ttl >= patience/8 {
				t.Fatal(err)
			}
			k = service(t, s, approvals.Options{TTL: ttl})
			a = ask(t, k, r)
			approved, err = k.Approve(t.Context(), a.Tenant, a.ID, approvals.Answer{})
		}
		<-time.After(time.Until(approved.Expires))
		_, refusal := k.Redeem(t.Context(), a.ID, r)
		wantRefusal(t, "too late", refusal, "APPROVAL_EXPIRED")
	})
}

func TestMostApprovals(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		s := open()
		k := service(t, s, approvals.Options{MaxOpen: 3})
		var last approvals.Approval
		for i := range 3 {
			last = ask(t, k, request(fmt.Sprint(`{"n":`, i, `}`)))
		}
		_, _, refusal := k.Create(t.Context(), request(`{"n":3}`))
		wantRefusal(t, "one too many", refusal, "APPROVALS_FULL")
		if refusal != nil && (refusal.RetryAfter == 0 || refusal.Kind != call.ResourceExhausted) {
			t.Errorf("got %+v", refusal)
		}
		if a := ask(t, k, request(`{"n":2}`)); a.ID != last.ID {
			t.Error("one that there is was not found")
		}
		other := request(`{"n":3}`)
		other.Tenant = "other"
		ask(t, k, other)
		if _, err := k.Deny(t.Context(), last.Tenant, last.ID, approvals.Answer{}); err != nil {
			t.Fatal(err)
		}
		ask(t, k, request(`{"n":3}`))
		for i := range 50 { // the number of stored expired approvals is bounded too
			a := ask(t, k, &approvals.Request{Tenant: "x", Capability: "c", Tool: "t", Args: fmt.Append(nil, i)})
			if _, err := k.Deny(t.Context(), "x", a.ID, approvals.Answer{}); err != nil {
				t.Fatal(err)
			}
		}
		if page, next, err := k.List(t.Context(), "x", approvals.Filter{}, "", 100); err != nil || len(page) > 15 ||
			next != "" {
			t.Errorf("%d are kept, next %q, %v", len(page), next, err)
		}
	})
}

func TestApprovalsAreListed(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		s := open()
		k := service(t, s, approvals.Options{})
		var want []string
		for i := range 25 {
			r := request(fmt.Sprint(`{"n":`, i, `}`))
			r.User = fmt.Sprint("user-", i%2)
			a := ask(t, k, r)
			if i%2 == 1 {
				want = append(want, a.ID)
			}
		}
		got := map[string]bool{}
		for after, pages := "", 0; ; pages++ {
			page, next, err := k.List(t.Context(), "ac:{me}%",
				approvals.Filter{User: "user-1", State: approvals.Pending}, after, 5)
			if err != nil || len(page) > 5 || pages > 4 {
				t.Fatalf("page %d: %d, %v", pages, len(page), err)
			}
			for i, a := range page {
				if got[a.ID] = true; a.User != "user-1" || a.Preview == "" ||
					i > 0 && a.Created.After(page[i-1].Created) {
					t.Errorf("got %+v", a)
				}
			}
			if after = next; after == "" {
				break
			}
		}
		if len(got) != len(want) {
			t.Errorf("%d are listed, not %d", len(got), len(want))
		}
		for _, id := range want {
			if !got[id] {
				t.Errorf("%s is not listed", id)
			}
		}
		for _, f := range []approvals.Filter{{State: approvals.Used}, {Agent: "x"}, {Capability: "x"}, {Tool: "x"}} {
			if page, next, err := k.List(t.Context(), "ac:{me}%", f, "", 5); len(page) != 0 || next != "" ||
				err != nil {
				t.Errorf("%+v: %d, %q, %v", f, len(page), next, err)
			}
		}
		// Index entries without a record are skipped and removed.
		st := s.Approvals()
		if err := st.Do(t.Context(), func(ctx context.Context, r redis.Cmdable) error {
			return r.Del(ctx, st.RecordKey("ac:{me}%", want[0])).Err()
		}); err != nil {
			t.Fatal(err)
		}
		page, _, err := k.List(t.Context(), "ac:{me}%", approvals.Filter{}, "", 100)
		if err != nil || len(page) != 24 {
			t.Errorf("%d are listed, %v", len(page), err)
		}
		if n := st.Indexed(t.Context(), "ac:{me}%"); n != 24 {
			t.Errorf("%d are in the index", n)
		}
	})
}

// TestAMalformedApprovalIsAbsent: a malformed approval permits nothing and is treated as absent.
func TestAMalformedApprovalIsAbsent(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		s := open()
		k, st := service(t, s, approvals.Options{}), s.Approvals()
		for i, spoil := range [][]any{
			{"state", "Approved"}, {"state", ""}, {"expires", "soon"}, {"expires", ""}, {"expires", "-1"},
			{"expires", "1e99"},
			{"schema", "00"}, {"arguments", "zz"}, {"user", "eve"}, {"id", ""},
		} {
			r := request(fmt.Sprint(i))
			a := ask(t, k, r)
			approve(t, k, a, approvals.Answer{})
			key := st.RecordKey(r.Tenant, a.ID)
			if err := st.Do(t.Context(), func(ctx context.Context, c redis.Cmdable) error {
				return c.HSet(ctx, key, spoil...).Err()
			}); err != nil {
				t.Fatal(err)
			}
			if spoil[0] != "id" {
				if _, refusal := k.Redeem(t.Context(), a.ID, r); refusal == nil {
					t.Errorf("%v: used", spoil)
				}
			}
			if got, err := k.Get(t.Context(), r.Tenant, a.ID); err == nil && spoil[0] != "user" {
				t.Errorf("%v: %+v", spoil, got)
			}
			// a string where a hash should be
			if err := st.Do(t.Context(), func(ctx context.Context, c redis.Cmdable) error {
				return errors.Join(c.Del(ctx, key).Err(), c.Set(ctx, key, "approved", time.Hour).Err())
			}); err != nil {
				t.Fatal(err)
			}
			_, refusal := k.Redeem(t.Context(), a.ID, r)
			wantRefusal(t, "a string", refusal, "APPROVAL_UNKNOWN")
			if b := ask(t, k, r); b.ID == a.ID || b.State != approvals.Pending {
				t.Errorf("%v: asked again: %+v", spoil, b)
			}
		}
		if n := s.Stats().Malformed; n < 20 {
			t.Errorf("%d malformed values counted", n)
		}
	})
}
