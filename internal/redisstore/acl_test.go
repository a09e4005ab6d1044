package redisstore_test

import (
	"os"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/redisstore"
	"github.com/capgate/capgate/internal/redistest"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/policy"
	"github.com/capgate/capgate/router/affinity"
)

// TestTheUsersThatAreRecommended: deploy/redis/users.acl lets each user do what docs/redis.md says, and no more.
func TestTheUsersThatAreRecommended(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../deploy/redis/users.acl")
	if err != nil {
		t.Fatal(err)
	}
	server := redistest.StartReplicated(t)
	options, err := redis.ParseURL(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	admin := redis.NewClient(options)
	t.Cleanup(func() { _ = admin.Close() })
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		if words[1] == "default" {
			continue // the replica's, and this test's
		}
		args := []any{"ACL", "SETUSER"}
		for _, w := range words[1:] {
			args = append(args, w)
		}
		if err := admin.Do(t.Context(), args...).Err(); err != nil {
			t.Fatal(line, err)
		}
	}
	as := func(user, password string) *redisstore.Store {
		return open(t, redisstore.Config{
			URL: strings.Replace(server.URL(), "redis://", "redis://"+user+":"+password+"@", 1), StoreKeys: [][]byte{storeKey}, WaitReplicas: 1, WaitTimeout: never,
		})
	}
	full, serving := as("capgate", "CHANGE_ME_1"), as("capgate-serving", "CHANGE_ME_2")
	rule := policy.Rule{Tenant: "acme", Name: policy.Name{Capability: "caps", Tool: "x"}, Verdict: call.Allow}
	record := &tenant.Record{ID: "acme", UID: "u", Name: "Acme"}
	if err := full.Policies().Set(t.Context(), rule); err != nil {
		t.Error(err)
	}
	if err := full.Tenants().CreateTenant(t.Context(), record); err != nil {
		t.Error(err)
	}
	if err := serving.Policies().Set(t.Context(), rule); err == nil {
		t.Error("who serves sets rules")
	}
	if err := serving.Policies().Candidates().Set(t.Context(), rule); err == nil {
		t.Error("who serves sets candidates")
	}
	record.ID = "other"
	if err := serving.Tenants().CreateTenant(t.Context(), record); err == nil {
		t.Error("who serves makes tenants")
	}
	if found, err := serving.Policies().Find(t.Context(), "acme", []policy.Name{rule.Name}); err != nil || !found[0].Present {
		t.Errorf("%+v, %v", found, err)
	}
	if r, err := serving.Tenants().FindTenant(t.Context(), "acme"); err != nil || r == nil {
		t.Errorf("%+v, %v", r, err)
	}
	st := serving.Approvals()
	if !runs(t, st, approved(t, st, "apr_1"), "apr_1", "a") {
		t.Error("an approval does not run")
	}
	bind(t, serving.Sessions(), binding(affinity.Session{Tenant: "acme", Capability: "caps", ID: "s"}, "a:1", 0))
	if serving.Replicas() != 1 || full.Replicas() != 1 {
		t.Error("they do not see replicas")
	}
	options.Username, options.Password = "capgate-watching", "CHANGE_ME_3"
	watching := redis.NewClient(options)
	t.Cleanup(func() { _ = watching.Close() })
	if n, err := watching.HLen(t.Context(), "cg:{acme:policy}:rules").Result(); n != 1 || err != nil {
		t.Error(n, err)
	}
	if err := watching.Set(t.Context(), "cg:x", "y", 0).Err(); err == nil {
		t.Error("who watches writes")
	}
}
