package deploy

import (
	"crypto/rand"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/capgate/capgate/internal/redisstore"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/internal/testkit/check"
	program "github.com/capgate/capgate/internal/testkit/process"
	"github.com/capgate/capgate/policy"
	"github.com/capgate/capgate/policy/approvals"
)

// TestRedisACL: with the users of redis/compose.acl, the gateway's store works, and other commands are denied.
func TestRedisACL(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	text, err := os.ReadFile("redis/compose.acl")
	check.Must(t, err)
	password, dir := rand.Text(), t.TempDir()
	file := filepath.Join(dir, "users.acl")
	check.Must(t, os.WriteFile(file, []byte(strings.ReplaceAll(string(text), "@PASSWORD@", password)), 0o600))
	addr := startRedis(t, file)
	open := func(user, password string) *redis.Client {
		c := redis.NewClient(&redis.Options{Addr: addr, Username: user, Password: password, MaxRetries: -1})
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	mine := open("capgate", password)
	check.Succeeds(t, "redis", func() error { return mine.Ping(ctx).Err() })
	if err := open("", "").Ping(ctx).Err(); err == nil {
		t.Error("Redis responds without a password")
	}
	if err := open("default", password).Ping(ctx).Err(); err == nil {
		t.Error("the default user is enabled")
	}
	for _, words := range [][]any{
		{"FLUSHALL"}, {"FLUSHDB"}, {"CONFIG", "GET", "*"}, {"KEYS", "*"}, {"ACL", "LIST"}, {"SHUTDOWN"},
		{"REPLICAOF", "NO", "ONE"},
		{"MONITOR"}, {"SCRIPT", "FLUSH"}, {"FUNCTION", "LIST"}, {"CLIENT", "LIST"}, {"MODULE", "LIST"}, {"SAVE"},
		{"GET", "other"}, {"PUBLISH", "other", "x"},
		{"EVAL", "return redis.call('GET', 'other')", 0}, {"RENAME", "cg:a", "cg:b"}, {"MIGRATE", "h", 1, "cg:a", 0, 1},
	} {
		if err := mine.Do(ctx, words...).Err(); err == nil ||
			!strings.Contains(err.Error(), "NOPERM") && !strings.Contains(err.Error(), "can't access") {
			t.Errorf("%v: %v", words, err)
		}
	}

	store, err := redisstore.Open(redisstore.Config{URL: "redis://capgate@" + addr, Password: password,
		Timeout: 10 * time.Second})
	check.Must(t, err)
	defer store.Close()
	check.Must(t, store.Tenants().CreateTenant(ctx, &tenant.Record{ID: "acme", UID: "u"}))
	check.Must(t, store.Policies().Set(ctx, policy.Rule{Tenant: "acme", Name: policy.Name{Capability: "c", Tool: "t"}}))
	draft := &approvals.Draft{TTL: time.Minute, MaxOpen: 10}
	draft.ID, draft.Tenant = "apr_AAAAAAAAAAAAAAAAAAAAAAAAAA", "acme"
	if _, err := store.Approvals().Create(ctx, draft); err != nil {
		t.Error(err)
	}
	if _, _, err := store.Approvals().Answer(ctx, "acme", draft.ID,
		&approvals.StoredAnswer{State: approvals.Approved, TTL: time.Minute}); err != nil {
		t.Error(err)
	}
	check.Must(t, store.Tenants().DeleteTenant(ctx, "acme", 0, true)) // scans all keys
}

// startRedis starts a server with users.
func startRedis(t *testing.T, acl string) (addr string) {
	t.Helper()
	addr = check.ClosedPort(t) // the port stays reserved
	_, port, err := net.SplitHostPort(addr)
	check.Must(t, err)
	program.Start(t, exec.Command("redis-server", "--port", port, "--bind", "127.0.0.1", "--save", "",
		"--appendonly", "no", "--aclfile", acl, "--dir", t.TempDir()))
	check.Succeeds(t, "a connection to Redis", func() error {
		conn, err := net.Dial("tcp", addr)
		if err == nil {
			err = conn.Close()
		}
		return err
	})
	return addr
}
