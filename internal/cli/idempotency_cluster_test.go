package cli

import (
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	"github.com/capgate/capgate/internal/testkit/redistest"
)

// keepingGateways are three processes that store the results of two tenants' calls in one Redis.
type keepingGateways struct {
	backend  *gatewaytest.Capability
	programs []*program
	addrs    []string
	tenants  []string // their credentials
}

func startKeeping(t *testing.T) *keepingGateways {
	t.Helper()
	redis, g := redistest.Start(t), &keepingGateways{backend: gatewaytest.NewCapability("one")}
	secret := make([]byte, 32)
	_, _ = rand.Read(secret) // it never fails
	answers := filepath.Join(t.TempDir(), "answers.key")
	put(t, filepath.Dir(answers), filepath.Base(answers), base64.StdEncoding.EncodeToString(secret)+"\n")
	var tenants []string
	for _, id := range []string{"acme", "umbra"} {
		key, entry := makeKey(t)
		g.tenants = append(g.tenants, key)
		tenants = append(tenants, "{id: "+id+", capabilities: ['*'], keys: ["+entry+"]}")
	}
	file := writeConfig(t, configOf("redis: {url: '"+redis.URL()+
		"', timeout: 10s}\noverload: {max_delay: 10s}\nsecret_file: '"+answers+"'\ntenants: ["+
		strings.Join(tenants, ", ")+"]",
		g.backend.Serve(t, call.Doc).Addr))
	for range 3 {
		p, public, _ := serve(t, nil, "--config", file)
		g.programs, g.addrs = append(g.programs, p), append(g.addrs, public)
	}
	return g
}

// keyedAnswer is the result of a call with an idempotency key.
type keyedAnswer struct {
	status   int
	replayed bool
	text     string
	err      error // there was no response
}

func (g *keepingGateways) call(t *testing.T, gateway, tenant int, key, tool, args string) (a keyedAnswer) {
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost,
		"http://"+g.addrs[gateway]+"/v1/capabilities/caps/tools/"+tool, strings.NewReader(args))
	if err != nil {
		return keyedAnswer{err: err}
	}
	req.Header.Set("Authorization", "Bearer "+g.tenants[tenant])
	req.Header.Set("Idempotency-Key", key)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: check.Patience}
	resp, err := client.Do(req)
	if err != nil {
		return keyedAnswer{err: err}
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	return keyedAnswer{resp.StatusCode, resp.Header.Get("Idempotency-Replayed") == "true", string(text), err}
}

// TestACallOfAKilledGatewayIsNotMadeAgain: a repeat waits while the call may still be running, and then gets
// the error of an unknown outcome, like all later repeats at any replica. The tool ran once.
func TestACallOfAKilledGatewayIsNotMadeAgain(t *testing.T) {
	t.Parallel()
	g := startKeeping(t)
	first := make(chan keyedAnswer, 1)
	go func() { first <- g.call(t, 0, 0, "k", gatewaytest.Block, `{}`) }()
	check.Received(t, g.backend.Blocked(), "the tool to run")
	g.programs[0].signal(t, 9)
	check.Received(t, g.programs[0].exited, "the end of the process")
	if a := check.Received(t, first, "the end of the first call"); a.err == nil {
		t.Errorf("the first got %+v of a gateway that was killed", a)
	}
	for _, gateway := range []int{1, 2, 1} {
		a := g.call(t, gateway, 0, "k", gatewaytest.Block, `{}`)
		if a.err != nil || a.status != http.StatusConflict || a.replayed ||
			!strings.Contains(a.text, `"IDEMPOTENCY_OUTCOME_UNKNOWN"`) {
			t.Errorf("gateway %d: %+v", gateway, a)
		}
	}
	if a := g.call(t, 2, 0, "another", gatewaytest.Echo, `{"a":1}`); a.status != http.StatusOK || a.replayed {
		t.Errorf("another key: %+v", a)
	}
	if n := len(g.backend.Seen()); n != 2 {
		t.Errorf("the backend got %d calls, want one for each key", n)
	}
}

// TestTwoTenantsHaveTheSameKey: neither learns of the other's key or its result.
func TestTwoTenantsHaveTheSameKey(t *testing.T) {
	t.Parallel()
	g := startKeeping(t)
	for round := range 3 { // each at another replica
		for tenant := range g.tenants {
			want := fmt.Sprintf(`{"tenant":%d}`, tenant)
			a := g.call(t, (round+tenant)%3, tenant, "the same", gatewaytest.Echo, want)
			if a.err != nil || a.status != http.StatusOK || a.text != want || a.replayed != (round > 0) {
				t.Errorf("round %d, tenant %d: %+v", round, tenant, a)
			}
		}
	}
	if a := g.call(t, 0, 0, "the same", gatewaytest.Echo,
		`{"tenant":1}`); a.status != http.StatusUnprocessableEntity ||
		!strings.Contains(a.text, "IDEMPOTENCY_KEY_REUSED") {
		t.Errorf("the other's arguments: %+v", a)
	}
	if n := len(g.backend.Seen()); n != 2 {
		t.Errorf("the backend got %d calls", n)
	}
}
