package redisstore_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/redisstore"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/toolschema"
	"github.com/capgate/capgate/policy"
	"github.com/capgate/capgate/policy/approvals"
	"github.com/capgate/capgate/policy/catalog"
	"github.com/capgate/capgate/policy/catalog/storetest"
)

// forging is a real Redis with a store that signs, into which others write too.
type forging struct {
	t      *testing.T
	log    *bytes.Buffer
	cfg    redisstore.Config
	store  *redisstore.Store // signs
	plain  *redisstore.Store // another one, with the same prefix and no key
	client *redis.Client
}

func newForging(t *testing.T) *forging {
	t.Helper()
	f := &forging{t: t, log: &bytes.Buffer{}}
	url := servers.urls["server"]()
	f.cfg = redisstore.Config{
		URL: url, Prefix: fmt.Sprintf("cg:forged-%d:", servers.tests.Add(1)), StoreKeys: [][]byte{storeKey},
		Log: slog.New(slog.NewTextHandler(f.log, nil)),
	}
	f.store = open(t, f.cfg)
	f.plain = open(t, redisstore.Config{URL: url, Prefix: f.cfg.Prefix})
	options, err := redis.ParseURL(url)
	check.Must(t, err)
	f.client = redis.NewClient(options)
	t.Cleanup(func() { _ = f.client.Close() })
	return f
}

// with opens another store of the same Redis.
func (f *forging) with(change func(*redisstore.Config)) *redisstore.Store {
	cfg := f.cfg
	change(&cfg)
	return open(f.t, cfg)
}

// redis sends a command, as redis-cli would.
func (f *forging) redis(args ...any) {
	f.t.Helper()
	if err := f.client.Do(f.t.Context(), args...).Err(); err != nil {
		f.t.Fatal(args, err)
	}
}

// find returns the only key that matches a pattern after the prefix.
func (f *forging) find(pattern string) string {
	f.t.Helper()
	keys, err := f.client.Keys(f.t.Context(), f.cfg.Prefix+pattern).Result()
	if err != nil || len(keys) != 1 {
		f.t.Fatal(pattern, keys, err)
	}
	return keys[0]
}

// rejected checks that the given number of records of a kind was counted, and one was logged.
func (f *forging) rejected(kind redisstore.Kind, least int64) {
	f.t.Helper()
	if n := f.store.Stats().Rejected[kind]; n < least {
		f.t.Errorf("%d records of kind %v are counted, want %d", n, kind, least)
	}
	if !strings.Contains(f.log.String(), "counts as absent\" kind="+string(kind)) {
		f.t.Errorf("the log says nothing of kind %v: %s", kind, f.log)
	}
}

// TestForgedRules: a rule of another writer, a changed one, and one signed for another tenant or tool are
// rejected.
func TestForgedRules(t *testing.T) {
	t.Parallel()
	f := newForging(t)
	rules := f.store.Policies()
	name := func(tool string) policy.Name { return policy.Name{Capability: "caps", Tool: tool} }
	set := func(p *redisstore.Policies, tenant, tool string, v call.Verdict) {
		check.Must(t, p.Set(t.Context(), policy.Rule{Tenant: tenant, Name: name(tool), Verdict: v, By: "ann"}))
	}
	set(rules, "acme", "good", call.Allow)
	set(rules, "acme", "asks", call.Ask)
	set(rules, "other", "moved", call.Allow)
	set(f.plain.Policies(), "acme", "forged", call.Allow)
	key := f.find("{acme:policy}:rules")
	values, err := f.client.HGetAll(t.Context(), key).Result()
	check.Must(t, err)
	var good, asks string
	for field, v := range values {
		switch {
		case strings.HasSuffix(field, "good"):
			good = v
		case strings.HasSuffix(field, "asks"):
			asks = field
		}
	}
	others, field := f.find("{other:policy}:rules"), strings.Replace(asks, "asks", "moved", 1)
	moved, err := f.client.HGet(t.Context(), others, field).Result()
	check.Must(t, err)
	f.redis("HSET", key, field, moved)                                                          // another tenant's
	f.redis("HSET", key, strings.Replace(asks, "asks", "swapped", 1), good)                     // another tool's
	f.redis("HSET", key, asks, strings.Replace(values[asks], `"ask"`, `"allow"`, 1))            // another verdict
	f.redis("HSET", key, strings.Replace(asks, "asks", "nonsense", 1), "nonsense that is kept") // which would block
	tools := []string{"good", "asks", "moved", "swapped", "forged", "nonsense"}
	names := make([]policy.Name, len(tools))
	for i, tool := range tools {
		names[i] = name(tool)
	}
	found, err := rules.Find(t.Context(), "acme", names)
	check.Must(t, err)
	for i, tool := range tools {
		if want := tool == "good"; found[i].Present != want || want && found[i].Verdict != call.Allow {
			t.Errorf("%s: %+v", tool, found[i])
		}
	}
	if list, _, err := rules.List(t.Context(), "acme", "", 100); err != nil || len(list) != 1 ||
		list[0].Tool != "good" || list[0].By != "ann" {
		t.Errorf("listed are %+v, %v", list, err)
	}
	f.rejected(redisstore.RuleRecord, 5)
	set(rules, "acme", "asks", call.Block) // setting it signs it
	if found, err := rules.Find(t.Context(), "acme", names[1:2]); err != nil || !found[0].Present ||
		found[0].Verdict != call.Block {
		t.Errorf("got %+v, %v", found, err)
	}
}

// TestForgedApprovals: approvals that were not requested or not approved, that bypassed their approver, have
// other fields or replace another, and a forged answer for a session, are rejected.
func TestForgedApprovals(t *testing.T) {
	t.Parallel()
	f := newForging(t)
	st := f.store.Approvals()
	key := func(id string) string { return f.cfg.Prefix + "{acme:approvals}:record:" + id }
	refused := func(what, id string, w *approvals.Binding) {
		t.Helper()
		if was, _, err := st.Redeem(t.Context(), w, id, "token-"+id); err == nil && was == approvals.Approved {
			t.Errorf("%s: runs", what)
		}
		if r, err := st.Get(t.Context(), "acme", id); err != approvals.ErrUnknown {
			t.Errorf("%s: there is %+v, %v", what, r, err)
		}
	}
	forged := approved(t, f.plain.Approvals(), "apr_1")
	refused("made without a key", "apr_1", forged)

	pending := &approvals.Draft{CallSum: approvals.Sum{2}, TTL: time.Hour, MaxOpen: 9}
	pending.ID, pending.Tenant, pending.Tool = "apr_2", "acme", "send"
	if _, err := st.Create(t.Context(), pending); err != nil {
		t.Fatal(err)
	}
	f.redis("HSET", key("apr_2"), "state", "approved")
	refused("approved by redis-cli", "apr_2", &pending.Binding)

	w := approved(t, st, "apr_3")
	f.redis("HSET", key("apr_3"), "tool", "delete")
	other := *w
	other.Tool = "delete"
	refused("for another tool", "apr_3", &other)

	w = approved(t, st, "apr_4")
	f.redis("HSET", key("apr_4"), "preview", "harmless")
	refused("with another preview", "apr_4", w)

	w = approved(t, st, "apr_5")
	f.redis("COPY", key("apr_5"), key("apr_6"))
	refused("a copy under another id", "apr_6", w)
	f.redis("HSET", key("apr_6"), "id", "apr_6")
	refused("a copy that says so", "apr_6", w)
	f.redis("HSET", key("apr_5"), "expires", fmt.Sprint(time.Now().Add(1000*time.Hour).UnixMilli()))
	refused("one that holds for longer", "apr_5", w)

	if !runs(t, st, approved(t, st, "apr_7"), "apr_7", "a") {
		t.Error("a good one does not run")
	}
	f.rejected(redisstore.ApprovalRecord, 8)
	f.rejected(redisstore.ApprovalAnswer, 2)

	// The answer applies only to the approval that the person saw.
	shown := &approvals.Draft{CallSum: approvals.Sum{8}, TTL: time.Hour, MaxOpen: 99}
	shown.ID, shown.Tenant, shown.Tool = "apr_8", "acme", "send"
	if _, err := f.plain.Approvals().Create(t.Context(), shown); err != nil {
		t.Fatal(err)
	}
	answer := &approvals.StoredAnswer{State: approvals.Approved, Token: "t", TTL: time.Hour}
	if _, _, err := st.Answer(t.Context(), "acme", "apr_8", answer); err != approvals.ErrUnknown {
		t.Errorf("an approval that is not signed is answered: %v", err)
	}
	// A call that would find it gets a new approval.
	shown.ID = "apr_9"
	if got, err := st.Create(t.Context(), shown); err != nil || !got.New || got.ID != "apr_9" {
		t.Errorf("got %+v, %v", got, err)
	}
}

// TestForgedAnswersOfSessions: calls of the session need a new approval.
func TestForgedAnswersOfSessions(t *testing.T) {
	t.Parallel()
	f := newForging(t)
	st := f.store.Approvals()
	ask := func(id string, session byte) approvals.CreateResult {
		t.Helper()
		d := &approvals.Draft{CallSum: approvals.Sum{id[4]}, SessionSum: &approvals.Sum{session}, TTL: time.Hour,
			MaxOpen: 9}
		d.ID, d.Tenant, d.Tool = id, "acme", "send"
		got, err := st.Create(t.Context(), d)
		check.Must(t, err)
		return got
	}
	ask("apr_1", 1)
	reply := &approvals.StoredAnswer{State: approvals.Approved, Token: "t", TTL: time.Hour, ValidFor: time.Hour}
	reply.Remember = approvals.ThisSession
	if _, ok, err := st.Answer(t.Context(), "acme", "apr_1", reply); ok != approvals.AnswerGiven || err != nil {
		t.Fatal(ok, err)
	}
	if got := ask("apr_2", 1); got.Remembered != approvals.Approved {
		t.Errorf("a good one: %+v", got)
	}
	key := f.find("{acme:approvals}:session:*")
	f.redis("COPY", key, strings.Replace(key, "session:01", "session:03", 1))
	f.redis("SET", strings.Replace(key, "session:01", "session:04", 1), "approved apr_1")
	for _, session := range []byte{3, 4} {
		if got := ask(fmt.Sprint("apr_", session), session); got.Remembered != 0 || !got.New {
			t.Errorf("session %d: %+v", session, got)
		}
	}
	f.rejected(redisstore.ApprovalAnswer, 2)
}

// TestForgedTools: a forged hash matches no tool.
func TestForgedTools(t *testing.T) {
	t.Parallel()
	f := newForging(t)
	c := f.store.Catalog()
	storetest.Write(t, c, catalog.Change{Capability: "weather",
		Tools: map[string]toolschema.Hash{"x": hashA, "y": hashA}})
	check.Must(t, f.plain.Catalog().Accept(t.Context(), "weather", "x", hashB))
	if got := storetest.Read(t, c, "weather", "").Accepted; len(got) != 2 || got["x"] != (toolschema.Hash{}) ||
		got["y"] != hashA {
		t.Errorf("got %+v", got)
	}
	f.rejected(redisstore.ToolRecord, 1)
}

// TestStoreKeysChange: the first key signs, all verify; unsigned records may be accepted for a time.
func TestStoreKeysChange(t *testing.T) {
	t.Parallel()
	f := newForging(t)
	name := policy.Name{Capability: "caps", Tool: "x"}
	there := func(what string, s *redisstore.Store, want bool) {
		t.Helper()
		if found, err := s.Policies().Find(t.Context(), "acme", []policy.Name{name}); err != nil ||
			found[0].Present != want {
			t.Errorf("%s: %+v, %v", what, found, err)
		}
	}
	set := func(s *redisstore.Store) {
		t.Helper()
		check.Must(t, s.Policies().Set(t.Context(), policy.Rule{Tenant: "acme", Name: name, Verdict: call.Allow}))
	}
	next := []byte("another key that signs the records")
	both := f.with(func(c *redisstore.Config) { c.StoreKeys = [][]byte{next, storeKey} })
	only := f.with(func(c *redisstore.Config) { c.StoreKeys = [][]byte{next} })
	lenient := f.with(func(c *redisstore.Config) { c.AcceptUnsigned = true })
	set(f.store)
	there("by the old key, with both", both, true)
	there("by the old key, with the new one alone", only, false)
	set(both)
	there("by the new key", only, true)
	there("by the new key, with the old one alone", f.store, false)
	there("signed by another key is not unsigned", lenient, false)
	set(f.plain)
	there("unsigned", f.store, false)
	there("unsigned, and that is allowed", lenient, true)
	set(lenient)
	there("written anew", f.store, true)
	if a, b, c := lenient.AcceptsUnsigned(), f.store.AcceptsUnsigned(), f.plain.AcceptsUnsigned(); !a || b || c {
		t.Errorf("unsigned records are accepted by a lenient store: %t, a strict: %t, one without keys: %t", a, b, c)
	}
	var held map[string]any
	values, err := f.client.HVals(context.Background(), f.find("{acme:policy}:rules")).Result()
	if err != nil || len(values) != 1 || json.Unmarshal([]byte(values[0]), &held) != nil || held["seal"] == "" {
		t.Errorf("%q, %v; held %+v", values, err, held)
	}
}
