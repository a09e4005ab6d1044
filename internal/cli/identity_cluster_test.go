package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/metadata"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/clienttest"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	"github.com/capgate/capgate/internal/testkit/redistest"
	docpb "github.com/capgate/capgate/proto/selu/capability"
)

// keyedGateways are three gateways that share tenants and keys in one Redis.
type keyedGateways struct {
	redis   *redistest.Server
	clients []docpb.CapabilityClient
	publics []string
	admins  []string
	config  string // file
}

// startKeyed starts them, with further configuration.
func startKeyed(t *testing.T, more ...string) *keyedGateways {
	t.Helper()
	g := &keyedGateways{redis: redistest.Start(t)}
	backend := gatewaytest.NewCapability("one").Serve(t, call.Doc).Addr
	config := writeConfig(t, configOf("redis: {url: '"+g.redis.URL()+
		"', timeout: 5s}\noverload: {max_delay: 10s}\nidentity: {store: redis}\n"+strings.Join(more, "\n"), backend))
	g.config = config
	for range 3 {
		_, public, admin := serve(t, nil, "--config", config)
		g.clients, g.publics, g.admins = append(g.clients, dial(t, public)), append(g.publics, public),
			append(g.admins, admin)
	}
	return g
}

// run runs capgate at one of the gateways.
func (g *keyedGateways) run(t *testing.T, gateway int, words ...string) (stdout string) {
	t.Helper()
	exit, stdout, stderr := runProgram(t, nil, append(words, "--admin", g.admins[gateway])...)
	if exit != 0 {
		t.Fatalf("%v: %d, %s", words, exit, stderr)
	}
	return stdout
}

// key creates a key with capgate, or one that replaces another.
func (g *keyedGateways) key(t *testing.T, words ...string) (id, credential string) {
	t.Helper()
	credential = strings.TrimSpace(g.run(t, 0, append([]string{"keys"}, words...)...))
	id, _, ok := tenant.ParseCredential(credential)
	if !ok {
		t.Fatalf("%v: no key", words)
	}
	return id, credential
}

// call makes a call with a key, and returns the reason of its rejection; "" if it succeeded.
func (g *keyedGateways) call(t *testing.T, gateway int, credential string) (refused string) {
	t.Helper()
	ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+credential)
	_, err := g.clients[gateway].Invoke(ctx,
		&docpb.InvokeRequest{CapabilityId: "caps", ToolName: gatewaytest.Echo, ArgsJson: []byte("{}")})
	if err != nil {
		refused = err.Error()
	}
	if info := clienttest.ErrorInfo(err); info != nil {
		refused = info.GetReason()
	}
	return refused
}

// until calls every gateway with a key until all reject it with the reason; "" means that they accept it.
func (g *keyedGateways) until(t *testing.T, credential, reason string) {
	t.Helper()
	for gateway := range g.clients {
		check.Until(t, fmt.Sprintf("gateway %d to answer with %q", gateway, reason), func() (bool, string) {
			refused := g.call(t, gateway, credential)
			return refused == reason, refused
		})
	}
}

// changed waits until every gateway reports that it knows all changes made before now. From then on, none may
// decide by the state before them.
func (g *keyedGateways) changed(t *testing.T) {
	t.Helper()
	done := time.Now()
	for _, admin := range g.admins {
		waitKnown(t, admin, "capgate_identity_staleness_seconds", done)
	}
}

// follows checks that every gateway that knows all changes made before now rejects a key with the reason; ""
// means that it accepts it.
func (g *keyedGateways) follows(t *testing.T, credential, reason string) {
	t.Helper()
	g.changed(t)
	for gateway := range g.clients {
		g.answers(t, gateway, reason, func() string { return g.call(t, gateway, credential) })
	}
}

// answers checks the response of a gateway. It repeats the call only if the gateway has counted that Redis was
// late.
func (g *keyedGateways) answers(t *testing.T, gateway int, want string, ask func() string) {
	t.Helper()
	failures := func() float64 {
		_, text := page(t, "http://"+g.admins[gateway]+"/metrics")
		return metric(t, text, "capgate_redis_errors_total")
	}
	check.Until(t, fmt.Sprintf("an answer of Redis to gateway %d", gateway), func() (bool, string) {
		before := failures()
		got := ask()
		if got != want && failures() == before {
			t.Fatalf("gateway %d says that it knows of the change, and answers %q, want %q", gateway, got, want)
		}
		return got == want, got
	})
}

// steadily calls all gateways with a valid key until the test ends; no call may fail.
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
				if refused := g.call(t, gateway, credential); refused != "" {
					t.Errorf("a good key at gateway %d: %s", gateway, refused)
					return
				}
			}
		})
	}
	return func() { close(ended); calling.Wait() }
}

// TestKeysOfThreeGateways: an operator's change at one gateway applies at each as soon as that gateway reports
// that it knows the change, while others call. Package sim proves that this takes less than a second.
func TestKeysOfThreeGateways(t *testing.T) {
	t.Parallel()
	g := startKeyed(t)
	g.run(t, 0, "tenants", "create", "acme", "--capabilities", "caps")
	_, good := g.key(t, "create", "acme", "--name", "steady")
	end := g.steadily(t, good)
	for range 3 {
		id, doomed := g.key(t, "create", "acme")
		g.follows(t, doomed, "")
		g.run(t, 1, "keys", "revoke", "acme", id)
		g.follows(t, doomed, "CREDENTIAL_INVALID")
	}

	id, old := g.key(t, "create", "acme")
	_, next := g.key(t, "rotate", "acme", id, "--grace", "1h")
	g.follows(t, old, "")
	g.follows(t, next, "")
	id, _, _ = tenant.ParseCredential(next)
	_, last := g.key(t, "rotate", "acme", id, "--grace", "1ms")
	g.follows(t, next, "CREDENTIAL_EXPIRED")
	g.follows(t, last, "")
	if list := g.run(t, 2, "keys", "list", "acme"); strings.Count(list, "revoked") != 3 ||
		strings.Count(list, "replaced") != 1 || strings.Count(list, "expired") != 1 {
		t.Errorf("got %s", list)
	}

	g.run(t, 2, "tenants", "create", "globex", "--capabilities", "*")
	_, theirs := g.key(t, "create", "globex")
	g.follows(t, theirs, "")
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
		g.follows(t, theirs, step.reason)
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
		if g.call(t, gateway, stranger) == "" {
			t.Errorf("gateway %d takes a key that Redis has lost", gateway)
		}
	}
	end()
}

// TestAReplicaWithoutPepper: it rejects keys that were created with a pepper, and its log has the reason.
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
	if with, without := g.call(t, 0, credential), g.call(t, 1, credential); with != "" ||
		without != "CREDENTIAL_INVALID" {
		t.Errorf("with the pepper %q, without it %q", with, without)
	}
	bare.stderr.wait(t, bare, `no pepper_file is configured: they are rejected","tenant":"acme","key":"`+id)
}

// TestAFloodOfKeys: each unknown id is looked up once, and the valid key stays in the cache.
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
				if refused := g.call(t, 0, tenant.Credential(id, secret)); refused != "CREDENTIAL_INVALID" {
					t.Errorf("a wrong key: %q", refused)
				}
			}
		})
	}
	began := time.Now()
	calling.Wait()
	// The version is read twice a second, and each id once more if the version has changed.
	most := float64(3*ids + 4*int(time.Since(began).Seconds()+2))
	if n := g.commands(t) - before; n > most {
		t.Errorf("%v commands for %d wrong keys of %d ids, want at most %v", n, ids*times, ids, most)
	}
	end()
}

// commands returns the number of commands that the first gateway has sent to Redis to authenticate callers.
func (g *keyedGateways) commands(t *testing.T) float64 {
	t.Helper()
	return waitMetric(t, "http://"+g.admins[0]+"/metrics", `capgate_redis_commands_total{for="identity"}`,
		func(float64) bool { return true })
}

// TestKeysInFiles: a new key is written once, where only its owner can read it.
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
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file of the credential: %v, %v", info, err)
	}
	if reason := g.call(t, 0, strings.TrimSpace(string(data))); reason != "" {
		t.Errorf("the credential of the file is refused: %s", reason)
	}
	exit, _, stderr := runProgram(t, nil, "keys", "create", "acme", "--out", file, "--admin", g.admins[0])
	if exit != 2 || !strings.Contains(stderr, "file exists") {
		t.Errorf("over another: %d, %s", exit, stderr)
	}
	other := filepath.Join(t.TempDir(), "other")
	if exit, _, stderr = runProgram(t, nil, "keys", "create", "nobody", "--out", other, "--admin",
		g.admins[0]); exit != 1 || !strings.Contains(stderr, `there is no tenant "nobody"`) {
		t.Errorf("without a credential: %d, %s", exit, stderr)
	}
	if _, err := os.Stat(other); err == nil {
		t.Error("a file is left that has no key")
	}
	if text := g.run(t, 1, "tenants", "show", "acme"); !strings.Contains(text, `{"calls_per_second":1000}`) {
		t.Errorf("got %s", text)
	}
}
