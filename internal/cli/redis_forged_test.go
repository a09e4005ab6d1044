package cli

import (
	"crypto/rand"
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	"github.com/capgate/capgate/internal/testkit/redistest"
)

// TestAForgedRuleAllowsNothing: with a secret_file, a gateway accepts its own rules and not one that was forged
// in Redis, which it counts and logs.
func TestAForgedRuleAllowsNothing(t *testing.T) {
	t.Parallel()
	server, capability := redistest.Start(t), gatewaytest.NewCapability("first")
	key := make([]byte, 32)
	_, _ = rand.Read(key)
	keys := filepath.Join(t.TempDir(), "secret.key")
	check.Must(t, os.WriteFile(keys, []byte(base64.StdEncoding.EncodeToString(key)+"\n"), 0o600))
	more := "policies: {}\nsecret_file: " + keys + "\nredis: {timeout: 10s, url: '" + server.URL() + "'}"
	file := writeConfig(t, strings.Replace(configOf(more, capability.Serve(t, call.Doc).Addr), "policy: allow",
		"policy: block", 1))
	p, public, admin := serve(t, nil, "--config", file)
	client := dial(t, public)
	if exit, _, errs := capgatePolicy(t, admin, "set", "caps", gatewaytest.Echo, "allow", "--user", "ann",
		"--tenant", "default"); exit != 0 {
		t.Fatal(errs)
	}
	until(t, client, "ann", gatewaytest.Echo, codes.OK)

	rules := "cg:{default:policy}:rules"
	signed := server.Do("HGET", rules, "ann::caps:"+gatewaytest.Echo)
	server.Do("HSET", rules, "bob::caps:"+gatewaytest.Echo, `{"verdict":"allow","by":"operator","at":1}`)
	server.Do("HSET", rules, "cid::caps:"+gatewaytest.Echo, signed) // ann's, for another user
	until(t, client, "bob", gatewaytest.Echo, codes.PermissionDenied)
	until(t, client, "cid", gatewaytest.Echo, codes.PermissionDenied)
	waitMetric(t, "http://"+admin+"/metrics", `capgate_redis_rejected_total{kind="rule"}`,
		func(n float64) bool { return n >= 2 })
	p.stderr.wait(t, p, "counts as absent")
}
