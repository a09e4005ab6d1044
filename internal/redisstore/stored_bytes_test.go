package redisstore_test

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/redisstore"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/internal/tenant/storetest"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/toolschema"
	"github.com/capgate/capgate/policy"
	"github.com/capgate/capgate/policy/approvals"
)

var update = flag.Bool("update", false, "write the golden files") //nolint:gochecknoglobals // a flag

// writtenAt is the time of Redis when the golden files were written.
var writtenAt = time.UnixMilli(1_935_748_800_123)

// storedKeys are the keys whose bytes are compared: those of records that replicas of other versions read.
var storedKeys = []string{"cg:{acme:approvals}:record:*", "cg:{acme:approvals}:answers:*", "cg:{acme:approvals}:call:*",
	"cg:{acme:approvals}:session:*", "cg:{*:tenant}:record", "cg:{key:*}:record", "cg:{acme:policy}:rules",
	"cg:{catalog}:accepted:*"}

// storedDraft is an approval with a value in each field.
func storedDraft(id string) *approvals.Draft {
	d := &approvals.Draft{CallSum: approvals.Sum{id[len(id)-1]}, SessionSum: &approvals.Sum{7, id[len(id)-1]},
		TTL: time.Hour, MaxOpen: 9}
	d.Binding = approvals.Binding{Tenant: "acme", User: "ann:{1}\xff", Agent: "a\nb", Capability: "mail", Tool: "send",
		Session: "s 1", Thread: "t1", Schema: toolschema.Hash{1, 2}, ArgsHash: [32]byte{3}, Settings: approvals.Sum{4}}
	d.ID, d.Description, d.Change, d.RequestID, d.Trace = id, "Sends a letter.", "changed", "r1", "trace"
	d.Level, d.Why, d.Preview, d.Value = "tenant", "it is far", "{}", "5 EUR"
	d.Whole, d.Sealed = true, []byte("\x00sealed")
	return d
}

// storedAnswer is the last answer of an approval.
func storedAnswer(state approvals.State, token string) *approvals.StoredAnswer {
	return &approvals.StoredAnswer{State: state, Token: token, TTL: 2 * time.Hour, By: "bob", Comment: "fine",
		Remember: approvals.ThisSession, ValidFor: 30 * time.Minute, Given: approvals.GivenAnswer{Person: "bob@idp",
			Names: []string{"bob"}, Makers: []string{"operator"}, By: "bob", User: "b", State: state, Comment: "fine",
			Remember: approvals.ThisSession, ValidFor: 30 * time.Minute}}
}

// storeRecords writes records of each kind.
func storeRecords(t *testing.T, s *redisstore.Store) {
	t.Helper()
	ctx, st := t.Context(), s.Approvals()
	for _, id := range []string{"apr_1", "apr_2", "apr_3", "apr_4"} {
		_, err := st.Create(ctx, storedDraft(id))
		check.Must(t, err)
	}
	_, err := st.Create(ctx, &approvals.Draft{Record: approvals.Record{Approval: approvals.Approval{ID: "apr_5",
		Binding: approvals.Binding{Tenant: "acme"}}}, CallSum: approvals.Sum{9}, TTL: time.Hour, MaxOpen: 9})
	check.Must(t, err)
	for id, state := range map[string]approvals.State{"apr_1": approvals.Approved, "apr_2": approvals.Denied,
		"apr_3": approvals.Approved} {
		_, _, err = st.Answer(ctx, "acme", id, storedAnswer(state, "token-"+id))
		check.Must(t, err)
	}
	if !runs(t, st, &storedDraft("apr_3").Binding, "apr_3", "redeemed") {
		t.Error("an approved call does not run")
	}
	first := storedAnswer(approvals.Approved, "half")
	first.More = true
	_, _, err = st.Answer(ctx, "acme", "apr_4", first)
	check.Must(t, err)

	tenants := s.Tenants()
	r := storetest.Record("acme", "u1")
	r.UpdatedBy = "operator"
	check.Must(t, tenants.CreateTenant(ctx, r))
	check.Must(t, tenants.CreateTenant(ctx, &tenant.Record{ID: "bare", UID: "u2"}))
	off := storetest.Record("off", "u3")
	check.Must(t, tenants.CreateTenant(ctx, off))
	off.Version, off.Disabled, off.Limits, off.UpdatedBy = 1, true, nil, "operator"
	check.Must(t, tenants.UpdateTenant(ctx, off))
	k := &tenant.Key{ID: "k1", Tenant: "acme", Name: "Ann's", Hash: tenant.HashOf("secret", nil),
		Scopes: tenant.Invoke | tenant.Admin, Asserts: tenant.User, Expires: writtenAt.Add(time.Hour)}
	k.UID, k.CreatedBy, k.Makers = "u1", "operator", []string{"root", "operator"}
	check.Must(t, tenants.CreateKey(ctx, k))
	next := &tenant.Key{ID: "k2", Tenant: "acme", Hash: tenant.HashOf("other", nil)}
	next.UID, next.Replaces, next.First = "u1", "k1", "k1"
	check.Must(t, tenants.RotateKey(ctx, "k1", next, time.Minute))
	check.Must(t, tenants.RevokeKey(ctx, "acme", "k2"))

	ruled := rule("acme", odd, call.Ask)
	ruled.Expires = writtenAt.Add(time.Hour)
	check.Must(t, s.Policies().Set(ctx, ruled))
	check.Must(t, s.Policies().Set(ctx, policy.Rule{Tenant: "acme", Verdict: call.Allow,
		Name: policy.Name{Capability: "mail", Tool: "send"}}))
	check.Must(t, s.Catalog().Accept(ctx, "mail", "send", toolschema.Hash{1, 2}))
}

// checkRecords reads what storeRecords wrote.
func checkRecords(t *testing.T, s *redisstore.Store) {
	t.Helper()
	ctx, st := t.Context(), s.Approvals()
	want := storedDraft("apr_1").Record
	want.State, want.By, want.Comment, want.Remember = approvals.Approved, "bob", "fine", approvals.ThisSession
	want.Created, want.Answered, want.Expires = writtenAt, writtenAt, writtenAt.Add(2*time.Hour)
	want.ValidFor = 30 * time.Minute
	given := storedAnswer(approvals.Approved, "").Given
	given.Time = writtenAt
	want.Answers = []approvals.GivenAnswer{given}
	got, err := st.Get(ctx, "acme", "apr_1")
	if check.Must(t, err); !reflect.DeepEqual(got, want) {
		t.Errorf("an approval:\n%+v, want\n%+v", got, want)
	}
	for id, state := range map[string]approvals.State{"apr_2": approvals.Denied, "apr_3": approvals.Used,
		"apr_4": approvals.Pending, "apr_5": approvals.Pending} {
		if got, err := st.Get(ctx, "acme", id); err != nil || got.State != state {
			t.Errorf("%s: %+v, %v", id, got, err)
		}
	}
	if !runs(t, st, &storedDraft("apr_1").Binding, "apr_1", "again") {
		t.Error("an approved call does not run")
	}
	tenants := s.Tenants()
	record := storetest.Record("acme", "u1")
	record.UpdatedBy, record.Version, record.Created, record.Updated = "operator", 1, writtenAt, writtenAt
	if got, err := tenants.FindTenant(ctx, "acme"); err != nil || !reflect.DeepEqual(got, record) {
		t.Errorf("a tenant: %+v, %v", got, err)
	}
	if got, err := tenants.FindTenant(ctx, "off"); err != nil || !got.Disabled || got.Limits != nil ||
		got.Version != 2 {
		t.Errorf("a disabled tenant: %+v, %v", got, err)
	}
	if got, err := tenants.FindTenant(ctx, "bare"); err != nil || got == nil || got.UID != "u2" {
		t.Errorf("a tenant without a name: %+v, %v", got, err)
	}
	k := &tenant.Key{ID: "k1", Tenant: "acme", Name: "Ann's", Hash: tenant.HashOf("secret", nil),
		Scopes: tenant.Invoke | tenant.Admin, Asserts: tenant.User, Expires: writtenAt.Add(time.Hour)}
	k.UID, k.CreatedBy, k.Makers, k.Created = "u1", "operator", []string{"root", "operator"}, writtenAt
	k.ReplacedBy, k.Replaced, k.Until = "k2", writtenAt, writtenAt.Add(time.Minute)
	if got, err := tenants.FindKey(ctx, "k1"); err != nil || !reflect.DeepEqual(got, k) {
		t.Errorf("a key:\n%+v, %v, want\n%+v", got, err, k)
	}
	if got, err := tenants.FindKey(ctx, "k2"); err != nil || got == nil || !got.Revoked.Equal(writtenAt) ||
		got.Replaces != "k1" || got.First != "k1" {
		t.Errorf("a revoked key: %+v, %v", got, err)
	}
	if got := find(t, s.Policies(), "acme", odd); !got[0].Present || got[0].Verdict != call.Ask ||
		!got[0].Expires.Equal(writtenAt.Add(time.Hour)) {
		t.Errorf("a rule: %+v", got)
	}
	if n := s.Stats().Malformed; n != 0 {
		t.Errorf("%d malformed values", n)
	}
}

// dump returns the hashes and strings at storedKeys, as a command for each.
func dump(t *testing.T, s *redisstore.Store) string {
	t.Helper()
	var out strings.Builder
	check.Must(t, s.Probe().Do(t.Context(), func(ctx context.Context, r redis.Cmdable) error {
		for _, pattern := range storedKeys {
			names, err := r.Keys(ctx, pattern).Result()
			if slices.Sort(names); err != nil || len(names) == 0 {
				return fmt.Errorf("%s: %d keys, %w", pattern, len(names), err)
			}
			for _, name := range names {
				if text, err := r.Get(ctx, name).Result(); err == nil {
					fmt.Fprintf(&out, "SET %q %q\n", name, text)
					continue
				}
				fields, err := r.HGetAll(ctx, name).Result()
				if err != nil {
					return err
				}
				for _, field := range slices.Sorted(maps.Keys(fields)) {
					fmt.Fprintf(&out, "HSET %q %q %q\n", name, field, fields[field])
				}
			}
		}
		return nil
	}))
	return out.String()
}

// TestStoredBytes: records are stored as replicas of all versions read them, and such records are read.
func TestStoredBytes(t *testing.T) {
	t.Parallel()
	for name, keys := range map[string][][]byte{"signed": {storeKey}, "unsigned": nil} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			at := func() *redisstore.Store {
				s := open(t, redisstore.Config{StoreKeys: keys})
				redisstore.SetClock(s, writtenAt)
				return s
			}
			file, writes := "testdata/stored_"+name+".golden", at()
			storeRecords(t, writes)
			if *update {
				check.Must(t, os.WriteFile(file, []byte(dump(t, writes)), 0o600))
			}
			text, err := os.ReadFile(file)
			check.Must(t, err)
			if got := dump(t, writes); got != string(text) {
				t.Errorf("%s has other bytes; written:\n%s", file, got)
			}
			checkRecords(t, writes)
			reads := at()
			check.Must(t, reads.Probe().Do(t.Context(), func(ctx context.Context, r redis.Cmdable) error {
				for line := range strings.Lines(string(text)) {
					var words []any
					for rest := strings.TrimSuffix(line, "\n"); rest != ""; {
						word, _, _ := strings.Cut(rest, " ")
						if quoted, err := strconv.QuotedPrefix(rest); err == nil {
							word = quoted
						}
						rest = strings.TrimPrefix(rest[len(word):], " ")
						if plain, err := strconv.Unquote(word); err == nil {
							word = plain
						}
						words = append(words, word)
					}
					if err := r.(redis.UniversalClient).Do(ctx, words...).Err(); err != nil {
						return err
					}
				}
				return nil
			}))
			checkRecords(t, reads)
		})
	}
}
