package redisstore_test

import (
	"context"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/changefeed"
	"github.com/capgate/capgate/internal/redisstore"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/redistest"
	"github.com/capgate/capgate/internal/toolset"
	"github.com/capgate/capgate/policy"
	"github.com/capgate/capgate/router/affinity"
	"github.com/capgate/capgate/router/affinity/storetest"
)

// users has one connection for each user of a server.
type users struct {
	*testing.T
	server *redistest.Replicated
}

// TestComposeUserHasItsPermissions: the user has exactly the permissions that a gateway needs. All other tests of this
// package run as this user.
func TestComposeUserHasItsPermissions(t *testing.T) {
	t.Parallel()
	u := users{t, redistest.StartReplicated(t)}
	u.server.Do(t, setUsers(t, "compose.acl")["capgate"]...)
	store := u.store("capgate", "@PASSWORD@")
	u.mayAdminister(store)
	u.mayServe(store, "apr_1")
	u.mayNot("capgate", "@PASSWORD@")
}

// TestRecommendedUsersHaveTheirPermissions: deploy/redis/users.acl grants each user exactly the permissions that
// docs/run/redis.md states.
func TestRecommendedUsersHaveTheirPermissions(t *testing.T) {
	t.Parallel()
	u := users{t, redistest.StartReplicated(t)}
	for name, command := range setUsers(t, "users.acl") {
		if name != "default" { // the replica's and this test's
			u.server.Do(t, command...)
		}
	}
	// The replica connects again, as its own user.
	u.server.Do(t, "CONFIG", "SET", "masteruser", "capgate-replica", "masterauth", "CHANGE_ME_4")
	u.server.Do(t, "CLIENT", "KILL", "TYPE", "replica")
	if n, err := u.store("capgate", "CHANGE_ME_1").Probe().Wait(t.Context(), 1); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	full, serving := u.store("capgate", "CHANGE_ME_1"), u.store("capgate-serving", "CHANGE_ME_2")
	u.mayAdminister(full)
	u.mayServe(full, "apr_1")
	u.mayServe(serving, "apr_2")
	rule := policy.Rule{Tenant: "acme", Name: policy.Name{Capability: "caps", Tool: "x"}, Verdict: call.Allow}
	if err := serving.Policies().Set(t.Context(), rule); err == nil {
		t.Error("the serving user may set rules")
	}
	if err := serving.Policies().Candidates().Set(t.Context(), rule); err == nil {
		t.Error("the serving user may set candidates")
	}
	if err := serving.Tenants().CreateTenant(t.Context(), &tenant.Record{ID: "other", UID: "u"}); err == nil {
		t.Error("the serving user may create tenants")
	}
	if err := serving.Stored(toolset.Kind).Write(t.Context(), support("acme", "u", "drop"), ""); err == nil {
		t.Error("the serving user may set toolsets")
	}
	watching := u.client("capgate-watching", "CHANGE_ME_3")
	if n, err := watching.HLen(t.Context(), "cg:{acme:policy}:rules").Result(); n != 1 || err != nil {
		t.Error(n, err)
	}
	u.mayUse("capgate-serving")
	u.mayNot("capgate", "CHANGE_ME_1")
	u.mayNot("capgate-serving", "CHANGE_ME_2", "HSET cg:{acme:policy}:rules f v", "DEL cg:{key:x}:record")
	u.mayNot("capgate-replica", "CHANGE_ME_4", "GET cg:x", "SET cg:x y", "PUBLISH cg:policies x", "INFO")
	u.mayNot("capgate-watching", "CHANGE_ME_3", "SET cg:x y", "PUBLISH cg:policies x", "DEL cg:{acme:policy}:rules")
}

// store is a gateway's store, which signs records and waits for a replica.
func (u users) store(user, password string) *redisstore.Store {
	return open(u.T, redisstore.Config{
		URL: as(u.server.URL(), user, password), StoreKeys: [][]byte{storeKey}, WaitReplicas: 1, WaitTimeout: never,
	})
}

func (u users) client(user, password string) *redis.Client {
	u.Helper()
	options, err := redis.ParseURL(as(u.server.URL(), user, password))
	check.Must(u, err)
	c := redis.NewClient(options)
	u.Cleanup(func() { _ = c.Close() })
	return c
}

// mayUse checks that a user may read all keys and write those that the table of keys does not reserve for the
// admin API.
func (u users) mayUse(user string) {
	u.Helper()
	options, err := redis.ParseURL(u.server.URL())
	check.Must(u, err)
	c := redis.NewClient(options)
	defer func() { _ = c.Close() }()
	for _, r := range readKeyTable().rows {
		if r.Type == "channel" {
			continue
		}
		name := "cg:" + strings.ReplaceAll(r.Glob(), "*", "x:y")
		for command, allowed := range map[string]bool{"GET": true, "DEL": !r.ReadOnly} {
			answer, err := c.Do(u.Context(), "ACL", "DRYRUN", user, command, name).Text()
			if err != nil || (answer == "OK") != allowed {
				u.Errorf("%s %s: %s, %v", command, name, answer, err)
			}
		}
	}
}

// mayAdminister checks that tenants and rules can be set.
func (u users) mayAdminister(s *redisstore.Store) {
	u.Helper()
	if err := s.Tenants().CreateTenant(u.Context(), &tenant.Record{ID: "acme", UID: "u", Name: "Acme"}); err != nil {
		u.Error(err)
	}
	if err := s.Policies().Set(u.Context(), policy.Rule{Tenant: "acme",
		Name: policy.Name{Capability: "caps", Tool: "x"}, Verdict: call.Allow}); err != nil {
		u.Error(err)
	}
	if err := s.Stored(toolset.Kind).Write(u.Context(), support("acme", "u", "send"), ""); err != nil {
		u.Error(err)
	}
}

// mayServe checks that signed records can be read, a redemption waits for the replica, INFO reports it, and
// messages arrive.
func (u users) mayServe(s *redisstore.Store, approval string) {
	u.Helper()
	ctx, name := u.Context(), policy.Name{Capability: "caps", Tool: "x"}
	if found, err := s.Policies().Find(ctx, "acme", []policy.Name{name}); err != nil || !found[0].Present {
		u.Errorf("%+v, %v", found, err)
	}
	if r, err := s.Tenants().FindTenant(ctx, "acme"); err != nil || r == nil {
		u.Errorf("%+v, %v", r, err)
	}
	toolsets := s.Stored(toolset.Kind)
	news, err := toolsets.Changed(ctx, changefeed.Position{})
	if err != nil || len(news.Records) != 1 || len(news.Records[0].Text) == 0 {
		u.Errorf("%+v, %v", news, err)
	}
	news.Now.Version--
	if news, err := toolsets.Changed(ctx, news.Now); err != nil || len(news.Records) != 1 || news.Everything {
		u.Errorf("%+v, %v", news, err)
	}
	st := s.Approvals()
	if !runs(u.T, st, approved(u.T, st, approval), approval, "a") {
		u.Error("an approval does not run")
	}
	session := affinity.Session{Tenant: "acme", Capability: "caps", ID: "s"}
	storetest.Bind(u.T, s.Sessions(), storetest.Binding(session, "a:1", 0))
	if s.Replicas() != 1 {
		u.Error("it does not see replicas")
	}
	p, connected, messages := s.Probe(), make(chan struct{}, 10), make(chan string, 10)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go p.Subscribe(ctx, p.Channel("approvals"), func(m string) { messages <- m }, func() { connected <- struct{}{} })
	check.Received(u.T, connected, "the subscription")
	check.Must(u.T, p.Publish(ctx, p.Channel("approvals"), "m"))
	if got := check.Received(u.T, messages, "a message"); got != "m" {
		u.Errorf("the message %q", got)
	}
}

// mayNot checks that commands which no user, or not this one, needs are rejected.
func (u users) mayNot(user, password string, more ...string) {
	u.Helper()
	c := u.client(user, password)
	for _, command := range append(more, "GET other", "SET other x", "PUBLISH other x", "EVALSHA_RO x 1 other",
		"CONFIG GET *", "KEYS cg:*", "FLUSHALL",
		"FLUSHDB", "ACL LIST", "REPLICAOF NO ONE", "MONITOR", "SHUTDOWN") {
		var words []any
		for word := range strings.FieldsSeq(command) {
			words = append(words, word)
		}
		if err := c.Do(u.Context(), words...).Err(); err == nil || !strings.Contains(err.Error(), "NOPERM") {
			u.Errorf("%s: %s: %v", user, command, err)
		}
	}
	err := c.Do(u.Context(), "EVAL", "return redis.call('GET', 'other')", 0).Err()
	if err == nil || !strings.Contains(err.Error(), "NOPERM") && !strings.Contains(err.Error(), "can't access") {
		u.Errorf("%s: a script: %v", user, err)
	}
}
