package main

import (
	crand "crypto/rand"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/gatewaytest"
	"github.com/capgate/capgate/internal/redistest"
	docpb "github.com/capgate/capgate/proto/selu/capability"
)

// apartOps is how many requests of the tenant globex are compared.
const apartOps = 350

// TestTenantsAreApart: whatever the tenant acme does, all answers that globex gets, at every
// method that the public port has, are those of a world in which acme, and the capability
// that it alone is granted, do not exist. globex knows every name and id that acme has.
//
// CAPGATE_TEST_SEED repeats a run.
func TestTenantsAreApart(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	if text := os.Getenv("CAPGATE_TEST_SEED"); text != "" {
		var err error
		seed, err = strconv.ParseUint(text, 10, 64)
		must(t, err)
	}
	t.Logf("seed %d", seed)
	acmes, entryOfAcme := makeKey(t)
	globexs, entryOfGlobex := makeKey(t)
	// Both have limits of the same users and tools. acme has no calls of caps' echo left.
	const scopes = "invoke, read, approve, policy, admin, engine.chat, engine.agent, engine.subagent, engine.admin, engine.shield"
	tenantLine := func(id, grants, entry string, calls int) string {
		return fmt.Sprintf("  - {id: %s, capabilities: [caps, people, %s], limits: {each: [{per: user, capability: caps, per_month: %d}, {capability: caps, tool: echo, per_month: %[3]d}]}, "+
			"keys: [%[4]s, scopes: [%[5]s], asserts: [user, agent]}]}\n", id, grants, calls, strings.TrimSuffix(entry, "}"), scopes)
	}
	ofGlobex := tenantLine("globex", "mine, engine", entryOfGlobex, 1_000_000)
	together := startWorld(t, 2, tenantLine("acme", "hidden, hidden-engine", entryOfAcme, 10)+ofGlobex, "hidden")
	alone := startWorld(t, 1, ofGlobex, "")

	acme := []*stranger{newStranger(t, "acme", acmes, together[0]), newStranger(t, "acme", acmes, together[1])}
	acme[1].pools = acme[0].pools
	globex := newStranger(t, "globex", globexs, together[0])
	methods := publicMethods(t, globex)
	random := rand.New(rand.NewPCG(seed, 0))
	gen := &generator{t: t, random: random, methods: methods, of: globex.pools, theirs: acme[0].pools}
	others := &generator{t: t, random: rand.New(rand.NewPCG(seed, 1)), methods: methods, of: acme[0].pools, theirs: globex.pools, canary: "canary-of-acme", always: true}

	spend := others.make(docpb.File_selu_capability_capability_proto.Services().ByName("Capability").Methods().ByName("Invoke"))
	spend.request, spend.header, spend.json = `{"capability_id":"caps","tool_name":"echo","args_json":"e30="}`, nil, false
	for tries := 0; !strings.Contains(acme[tries%2].perform(&spend), "BUDGET_EXHAUSTED"); tries++ {
		if tries == 100 {
			t.Fatal("acme does not come to the end of its calls")
		}
	}

	var ops []operation
	var got []string
	for i := range apartOps {
		var meanwhile sync.WaitGroup
		for i := range others.random.IntN(3) {
			op := others.next()
			meanwhile.Go(func() { acme[i].perform(&op) })
		}
		if i < len(methods) { // each one once at least
			ops = append(ops, gen.make(methods[i]))
		} else {
			ops = append(ops, gen.next())
		}
		got = append(got, globex.perform(&ops[len(ops)-1]))
		meanwhile.Wait()
	}
	if n := len(acme[0].pools.all("approval")); n == 0 {
		t.Error("acme did nothing that could be seen")
	}
	again := newStranger(t, "globex", globexs, alone[0])
	for i := range ops {
		want := again.perform(&ops[i])
		if got[i] != want {
			t.Errorf("%d: %s\nbeside acme: %s\nalone:       %s", i, ops[i].text(), got[i], want)
			break // what comes after it may differ because of it
		}
		if strings.Contains(got[i], "canary-of-acme") {
			t.Errorf("%d: %s tells what acme sent: %s", i, ops[i].text(), got[i])
		}
	}
	for _, kind := range []string{"approval", "event", "token", "artifact", "key"} {
		if len(globex.pools.all(kind)) == 0 {
			t.Logf("globex saw no %s", kind)
		}
	}
}

// startWorld runs gateways with one Redis, and says where their public ports are.
func startWorld(t *testing.T, gateways int, tenants, more string) (ports []string) {
	t.Helper()
	redis := redistest.Start(t).URL()
	fleets := ""
	for _, id := range strings.Fields("caps people mine " + more) {
		policy := "allow"
		if id == "people" {
			policy = "ask"
		}
		capability := gatewaytest.NewCapability("at-" + id)
		capability.Files = crand.Text() // no other world has the same ids
		fleets += fmt.Sprintf("  - {capability: %s, policy: %s, affinity: session, backends: ['%s']}\n", id, policy, capability.Serve(t, call.Doc).Addr)
	}
	for _, id := range strings.Fields("engine " + strings.ReplaceAll(more, "hidden", "hidden-engine")) {
		fleets += fmt.Sprintf("  - {capability: %s, protocol: openparallax, backends: ['%s']}\n", id, serveMemory(t))
	}
	file := writeConfig(t, "listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\ndomains: [caps.test]\nredis: {url: '"+redis+"', timeout: 10s}\noverload: {max_delay: 10s}\npolicies: {}\ntenants:\n"+tenants+"fleets:\n"+fleets)
	for range gateways {
		_, public, admin := serve(t, nil, "--config", file)
		waitPage(t, "http://"+admin+"/readyz", `"ready":true`)
		ports = append(ports, public)
	}
	return ports
}
