package main

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	"github.com/capgate/capgate/internal/testkit/redistest"
	docpb "github.com/capgate/capgate/proto/selu/capability"
)

// keyedCall is a call with one key.
type keyedCall struct {
	gateway int
	refused string // why; "": it was not
}

// keyedGateways are three that share tenants and keys in one Redis.
type keyedGateways struct {
	redis   *redistest.Server
	clients []docpb.CapabilityClient
	publics []string
	admins  []string
}

func startKeyed(t *testing.T) *keyedGateways {
	t.Helper()
	g := &keyedGateways{redis: redistest.Start(t)}
	backend := gatewaytest.NewCapability("one").Serve(t, call.Doc).Addr
	config := writeConfig(t, configOf("redis: {url: '"+g.redis.URL()+
		"', timeout: 2s}\noverload: {max_delay: 10s}\nidentity: {store: redis}", backend))
	for range 3 {
		_, public, admin := serve(t, nil, "--config", config)
		g.clients, g.publics, g.admins = append(g.clients, dial(t, public)), append(g.publics, public),
			append(g.admins, admin)
	}
	return g
}

// run has capgate do something at one of the gateways.
func (g *keyedGateways) run(t *testing.T, gateway int, words ...string) (stdout string) {
	t.Helper()
	exit, stdout, stderr := runProgram(t, nil, append(words, "--admin", g.admins[gateway])...)
	if exit != 0 {
		t.Fatalf("%v: %d, %s", words, exit, stderr)
	}
	return stdout
}

// key has capgate make one, or one in the place of another.
func (g *keyedGateways) key(t *testing.T, words ...string) (id, credential string) {
	t.Helper()
	credential = strings.TrimSpace(g.run(t, 0, append([]string{"keys"}, words...)...))
	id, _, ok := tenant.ParseCredential(credential)
	if !ok {
		t.Fatalf("%v: no key", words)
	}
	return id, credential
}

func (g *keyedGateways) call(t *testing.T, gateway int, credential string) keyedCall {
	t.Helper()
	s := keyedCall{gateway: gateway}
	ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+credential)
	_, err := g.clients[gateway].Invoke(ctx,
		&docpb.InvokeRequest{CapabilityId: "caps", ToolName: gatewaytest.Echo, ArgsJson: []byte("{}")})
	if err != nil {
		s.refused = err.Error()
	}
	for _, detail := range status.Convert(err).Details() {
		if info, ok := detail.(*errdetails.ErrorInfo); ok {
			s.refused = info.GetReason()
		}
	}
	return s
}

// until calls every gateway with a key until all refuse it for a reason, "" for none.
func (g *keyedGateways) until(t *testing.T, credential, reason string) {
	t.Helper()
	var calling sync.WaitGroup
	for gateway := range g.clients {
		calling.Go(func() {
			for deadline := time.Now().Add(patience); ; <-time.After(pace) {
				s := g.call(t, gateway, credential)
				if s.refused == reason {
					return
				}
				if time.Now().After(deadline) {
					t.Errorf("gateway %d: %q, want %q", gateway, s.refused, reason)
					return
				}
			}
		})
	}
	calling.Wait()
}

// steadily calls all gateways with a key that is good, until the test is over; no call may fail.
func (g *keyedGateways) steadily(t *testing.T, credential string) (end func()) {
	t.Helper()
	ended := make(chan struct{})
	var calling sync.WaitGroup
	for gateway := range g.clients {
		calling.Go(func() {
			for {
				select {
				case <-ended:
					return
				case <-time.After(pace):
				}
				if s := g.call(t, gateway, credential); s.refused != "" {
					t.Errorf("a good key at gateway %d: %s", gateway, s.refused)
					return
				}
			}
		})
	}
	return func() { close(ended); calling.Wait() }
}

// TestKeysOfThreeGateways: an operator's change at one gateway applies at all, while others call.
func TestKeysOfThreeGateways(t *testing.T) {
	t.Parallel()
	g := startKeyed(t)
	g.run(t, 0, "tenants", "create", "acme", "--capabilities", "caps")
	_, good := g.key(t, "create", "acme", "--name", "steady")
	end := g.steadily(t, good)
	for range 3 {
		id, doomed := g.key(t, "create", "acme")
		g.until(t, doomed, "")
		g.run(t, 1, "keys", "revoke", "acme", id)
		g.until(t, doomed, "CREDENTIAL_INVALID")
		for gateway := range g.clients { // for good
			if s := g.call(t, gateway, doomed); s.refused != "CREDENTIAL_INVALID" {
				t.Errorf("gateway %d, of a key that it had refused: %q", gateway, s.refused)
			}
		}
	}

	id, old := g.key(t, "create", "acme")
	_, next := g.key(t, "rotate", "acme", id, "--grace", "1h")
	g.until(t, old, "")
	g.until(t, next, "")
	id, _, _ = tenant.ParseCredential(next)
	_, last := g.key(t, "rotate", "acme", id, "--grace", "100ms")
	g.until(t, next, "CREDENTIAL_EXPIRED")
	g.until(t, last, "")
	if list := g.run(t, 2, "keys", "list", "acme"); strings.Count(list, "revoked") != 3 ||
		strings.Count(list, "replaced") != 1 || strings.Count(list, "expired") != 1 {
		t.Errorf("%s", list)
	}

	g.run(t, 2, "tenants", "create", "globex", "--capabilities", "*")
	_, theirs := g.key(t, "create", "globex")
	g.until(t, theirs, "")
	for _, step := range []struct {
		words  []string
		reason string
	}{
		{[]string{"tenants", "set", "globex", "--disabled"}, "TENANT_DISABLED"},
		{[]string{"tenants", "set", "globex", "--disabled=false", "--capabilities", "other"}, "CAPABILITY_UNKNOWN"},
		{[]string{"tenants", "set", "globex", "--capabilities", "ca*"}, ""},
		{[]string{"tenants", "rm", "globex", "--force"}, "CREDENTIAL_INVALID"},
	} {
		g.run(t, 0, step.words...)
		g.until(t, theirs, step.reason)
	}
	end()
}

// TestKeysWhileRedisIsAway: known callers continue, unknown ones are rejected.
func TestKeysWhileRedisIsAway(t *testing.T) {
	t.Parallel()
	g := startKeyed(t)
	g.run(t, 0, "tenants", "create", "acme", "--capabilities", "caps")
	_, good := g.key(t, "create", "acme")
	_, stranger := g.key(t, "create", "acme")
	g.until(t, good, "")
	end := g.steadily(t, good)
	g.redis.Kill()
	g.until(t, stranger, "IDENTITY_UNAVAILABLE")
	g.redis.Restart() // empty
	for _, admin := range g.admins {
		waitPage(t, "http://"+admin+"/readyz", `"redis":"ok"`)
	}
	for gateway := range g.clients {
		if s := g.call(t, gateway, stranger); s.refused == "" {
			t.Errorf("gateway %d takes a key that Redis has lost", gateway)
		}
	}
	end()
}

// TestAReplicaWithoutPepper: it rejects keys that were made with a pepper, and its log has the reason.
func TestAReplicaWithoutPepper(t *testing.T) {
	t.Parallel()
	redis, pepper := redistest.Start(t), filepath.Join(t.TempDir(), "pepper")
	check.Must(t, os.WriteFile(pepper, []byte("0123456789abcdef0123456789abcdef"), 0o600))
	shared := configOf("redis: {url: '"+redis.URL()+
		"', timeout: 2s}\noverload: {max_delay: 10s}\nidentity: {store: redis}",
		gatewaytest.NewCapability("one").Serve(t, call.Doc).Addr)
	_, public, admin := serve(t, nil, "--config", writeConfig(t, shared+"\npepper_file: "+pepper))
	bare, other, _ := serve(t, nil, "--config", writeConfig(t, shared))
	g := &keyedGateways{redis: redis, clients: []docpb.CapabilityClient{dial(t, public), dial(t, other)},
		admins: []string{admin}}
	g.run(t, 0, "tenants", "create", "acme", "--capabilities", "caps")
	id, credential := g.key(t, "create", "acme")
	if with, without := g.call(t, 0, credential), g.call(t, 1, credential); with.refused != "" ||
		without.refused != "CREDENTIAL_INVALID" {
		t.Errorf("%q, %q", with.refused, without.refused)
	}
	bare.stderr.wait(t, bare, `no pepper_file is configured: they are rejected","tenant":"acme","key":"`+id)
}

// TestAFloodOfKeys: unknown ids are looked up once each, and the valid key stays known.
func TestAFloodOfKeys(t *testing.T) {
	t.Parallel()
	g := startKeyed(t)
	g.run(t, 0, "tenants", "create", "acme", "--capabilities", "caps")
	_, good := g.key(t, "create", "acme")
	g.until(t, good, "")
	end := g.steadily(t, good)
	const ids, times = 20, 50
	before := g.commands(t)
	var calling sync.WaitGroup
	for range ids {
		id, _ := tenant.NewCredential()
		calling.Go(func() {
			for range times {
				_, secret := tenant.NewCredential()
				if s := g.call(t, 0, tenant.Credential(id, secret)); s.refused != "CREDENTIAL_INVALID" {
					t.Errorf("a wrong key: %q", s.refused)
				}
			}
		})
	}
	began := time.Now()
	calling.Wait()
	// The version is asked for twice a second, and each id once more where that has told of a change.
	most := float64(3*ids + 4*int(time.Since(began).Seconds()+2))
	if n := g.commands(t) - before; n > most {
		t.Errorf("%v commands for %d wrong keys of %d ids, want at most %v", n, ids*times, ids, most)
	}
	end()
}

// commands is how many the first gateway sent to Redis to know who calls.
func (g *keyedGateways) commands(t *testing.T) float64 {
	t.Helper()
	return waitMetric(t, "http://"+g.admins[0]+"/metrics", `capgate_redis_commands_total{for="identity"}`,
		func(float64) bool { return true })
}

// TestKeysInFiles: a key that is made is written where only its owner reads it, once.
func TestKeysInFiles(t *testing.T) {
	t.Parallel()
	g := startKeyed(t)
	g.run(t, 0, "tenants", "create", "acme", "--capabilities", "caps", "--limits", `{"calls_per_second": 1000}`)
	file := filepath.Join(t.TempDir(), "key")
	if out := g.run(t, 0, "keys", "create", "acme", "--out", file); out != "" {
		t.Errorf("it is printed, too")
	}
	data, err := os.ReadFile(file)
	check.Must(t, err)
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 ||
		g.call(t, 0, strings.TrimSpace(string(data))).refused != "" {
		t.Errorf("%v, %v", info, err)
	}
	exit, _, stderr := runProgram(t, nil, "keys", "create", "acme", "--out", file, "--admin", g.admins[0])
	if exit != 2 || !strings.Contains(stderr, "file exists") {
		t.Errorf("over another: %d, %s", exit, stderr)
	}
	other := filepath.Join(t.TempDir(), "other")
	if exit, _, stderr = runProgram(t, nil, "keys", "create", "nobody", "--out", other, "--admin",
		g.admins[0]); exit != 1 || !strings.Contains(stderr, `there is no tenant "nobody"`) {
		t.Errorf("of nobody: %d, %s", exit, stderr)
	}
	if _, err := os.Stat(other); err == nil {
		t.Error("a file is left that has no key")
	}
	if text := g.run(t, 1, "tenants", "show", "acme"); !strings.Contains(text, `{"calls_per_second":1000}`) {
		t.Errorf("%s", text)
	}
}
