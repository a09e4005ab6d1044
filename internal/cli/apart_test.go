package cli

import (
	"cmp"
	crand "crypto/rand"
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	"github.com/capgate/capgate/internal/testkit/redistest"
	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
	docpb "github.com/capgate/capgate/proto/selu/capability"
)

// canaryOfAcme is in all arguments of the tenant acme.
const canaryOfAcme = "canary-of-acme"

// apartOps is the number of compared requests of the tenant globex.
const apartOps = 350

// TestTenantsAreApart: whatever the tenant acme does, all responses to globex, at every method of the public
// port, equal those of a deployment without acme and without the capability that only acme is granted. globex
// knows every name and id of acme.
//
// CAPGATE_TEST_SEED repeats a run.
func TestTenantsAreApart(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	if text := os.Getenv("CAPGATE_TEST_SEED"); text != "" {
		var err error
		seed, err = strconv.ParseUint(text, 10, 64)
		check.Must(t, err)
	}
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	// Both have limits of the same users and tools. acme has no calls of caps' echo left.
	const grants = `{"scopes": ["invoke", "read", "approve", "policy", "admin", "engine.chat", ` +
		`"engine.agent", "engine.subagent", "engine.admin", "engine.shield"], "asserts": ["user", "agent"]}`
	ofAcme := newParty(t, "acme", random.IntN(2) == 0, `"caps", "people", "hidden", "hidden-engine"`, grants, 10)
	ofGlobex := newParty(t, "globex", random.IntN(2) == 0, `"caps", "people", "mine", "engine"`, grants, 1_000_000)
	together, keys := startGateways(t, 2, "hidden", ofAcme, ofGlobex)
	alone, keysAlone := startGateways(t, 1, "", ofGlobex)
	port := func(w gatewayPorts) string { return w.public }
	if random.IntN(2) == 0 {
		t.Log("globex calls at its listener")
		port = func(w gatewayPorts) string { return w.listener }
	}

	acme := []*stranger{ofAcme.at(t, keys[0], together[0], together[0].public),
		ofAcme.at(t, keys[0], together[1], together[1].public)}
	acme[1].pools = acme[0].pools
	acme[0].secret, acme[1].secret = canaryOfAcme, canaryOfAcme // acme may see its own secret
	globex := ofGlobex.at(t, keys[1], together[0], port(together[0]))
	globex.alone, globex.secret = true, canaryOfAcme
	methods := publicMethods(t, globex)
	gen := &generator{t: t, random: random, methods: methods, of: globex.pools, theirs: acme[0].pools}
	others := &generator{t: t, random: rand.New(rand.NewPCG(seed, 1)), methods: methods, of: acme[0].pools,
		theirs: globex.pools, canary: canaryOfAcme, always: true}

	spend := others.make(docpb.File_selu_capability_capability_proto.Services().ByName("Capability").Methods().ByName(
		"Invoke"))
	spend.request, spend.header, spend.json = `{"capability_id":"caps","tool_name":"echo","args_json":"e30="}`, nil,
		false
	for tries := 0; !strings.Contains(acme[tries%2].perform(&spend), "BUDGET_EXHAUSTED"); tries++ {
		if tries == 100 {
			t.Fatal("acme does not come to the end of its calls")
		}
	}

	var ops []operation
	var got []string
	perform := func(op operation) {
		before := globex.disclosed
		ops, got = append(ops, op), append(got, globex.perform(&op))
		if globex.disclosed != before {
			t.Errorf("%d: %s contains what acme sent: %s", len(ops)-1, op.text(), got[len(got)-1])
		}
	}
	for i, op := range []operation{gen.another(grants), gen.another("{}")} {
		other := others.another(grants)
		acme[i].perform(&other)
		perform(op)
	}
	said := others.eachKind()[0] // it needs an approval, whose arguments the list shows
	said.request = strings.Replace(said.request, "e30=",
		base64.StdEncoding.EncodeToString([]byte(`{"said":"`+canaryOfAcme+`"}`)), 1)
	acme[0].perform(&said)
	acme[0].perform(&others.eachKind()[2])
	for _, op := range gen.eachKind() {
		perform(op)
	}
	for i := range apartOps {
		var meanwhile sync.WaitGroup
		for i := range others.random.IntN(3) {
			op := others.next()
			meanwhile.Go(func() { acme[i].perform(&op) })
		}
		if i < len(methods) { // each one at least once
			perform(gen.make(methods[i]))
		} else {
			perform(gen.next())
		}
		meanwhile.Wait()
	}
	for _, kind := range []string{"approval", "credential"} {
		if len(acme[0].pools.all(kind)) == 0 {
			t.Errorf("acme has no %s that could be seen", kind)
		}
	}
	again := ofGlobex.at(t, keysAlone[0], alone[0], port(alone[0]))
	again.alone = true
	for i := range ops {
		want := again.perform(&ops[i])
		if got[i] != want {
			t.Errorf("%d: %s\nbeside acme: %s\nalone:       %s", i, ops[i].text(), got[i], want)
			break // later responses may differ because of this one
		}
	}
	if acme[0].disclosed+acme[1].disclosed == 0 {
		t.Error("no response to acme contains what it sent")
	}
	for _, kind := range []string{"approval", "event", "token", "artifact", "key", "credential", "place"} {
		if len(globex.pools.all(kind)) == 0 {
			t.Errorf("globex saw no %s", kind)
		}
	}
}

// eachKind are operations whose responses have ids of each kind, after two keys were created.
func (g *generator) eachKind() []operation {
	capability := docpb.File_selu_capability_capability_proto.Services().ByName("Capability")
	approvals := capgatepb.File_capgate_v1_approvals_proto.Services().ByName("Approvals")
	ann := []string{"x-user-id", "ann"}
	return []operation{
		{method: capability.Methods().ByName("Invoke"), header: ann,
			request: `{"capability_id": "people", "tool_name": "echo", "args_json": "e30="}`},
		{method: capability.Methods().ByName("Invoke"), header: ann,
			request: `{"capability_id": "people", "tool_name": "fail", "args_json": "e30="}`},
		{method: approvals.Methods().ByName("ListApprovals"), request: `{"page_size": 1}`},
		{method: approvals.Methods().ByName("ListPastApprovals"), request: `{"page_size": 1}`},
		{method: approvals.Methods().ByName("WatchApprovals"), request: `{"last_event_id": ""}`, header: ann},
		{method: capability.Methods().ByName("UploadInputArtifact"), header: []string{"x-capability-id", "caps"},
			request: `{"filename": "a.txt", "mime_type": "text/plain"}`},
		{method: g.ofKeys("ListKeys"), request: `{"tenant_id": "-", "page_size": 1}`},
	}
}

// gatewayPorts has the ports of a gateway: the public one, the listener of the tenant globex, and the admin
// API.
type gatewayPorts struct{ public, listener, admin string }

// startGateways runs gateways with one Redis, and returns their ports and the first key of each tenant.
func startGateways(t *testing.T, gateways int, more string, tenants ...*party) (ports []gatewayPorts, keys []string) {
	t.Helper()
	redis := redistest.Start(t).URL()
	fleets := ""
	for _, id := range strings.Fields("caps people mine " + more) {
		policy := "allow"
		if id == "people" {
			policy = "ask"
		}
		capability := gatewaytest.NewCapability("at-" + id)
		capability.Files = crand.Text() // no other deployment has the same ids
		fleets += fmt.Sprintf("  - {capability: %s, policy: %s, affinity: session, health: {interval: 20s, "+
			"timeout: 20s}, backends: ['%s']}\n", id, policy, capability.Serve(t, call.Doc).Addr)
	}
	for _, id := range strings.Fields("engine " + strings.ReplaceAll(more, "hidden", "hidden-engine")) {
		fleets += fmt.Sprintf("  - {capability: %s, protocol: openparallax, health: {interval: 20s, timeout: "+
			"20s}, backends: ['%s']}\n", id, serveMemory(t))
	}
	lines := ""
	for _, p := range tenants {
		lines += p.line()
	}
	file := writeConfig(t, "listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\ndomains: [caps.test]\nredis: {url: '"+redis+
		"', timeout: 10s}\noverload: {max_delay: 10s}\nidentity: {store: redis}\npolicies: {}\n"+
		"calls: {keep: 0}\n"+ // TestCallersSeeTheirOwnCalls has them; durations differ
		"listeners: [{address: '127.0.0.1:0', tenant: globex}]\n"+
		"tenants:\n"+cmp.Or(lines, "  []\n")+"fleets:\n"+fleets)
	admin := ""
	for range gateways {
		p, public, operators := serve(t, nil, "--config", file)
		admin = operators
		waitPage(t, "http://"+admin+"/readyz", `"ready":true`)
		ports = append(ports, gatewayPorts{public, addressesOf(t, p)[0], admin})
	}
	for _, p := range tenants {
		keys = append(keys, p.join(t, admin))
	}
	return ports, keys
}
