package filter_test

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/capgate/capgate/gateway/engine"
	enginefilter "github.com/capgate/capgate/gateway/engine/filter"
	"github.com/capgate/capgate/gateway/filter"
	"github.com/capgate/capgate/gateway/localgrpc"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/filtertest"
	"github.com/capgate/capgate/router"
)

const (
	clients = engine.Prefix + "ClientService/"
	agents  = engine.Prefix + "AgentService/"
)

// fleet returns a fleet with some backends. If settings is nil, it does not consist of engines.
func fleet(t testing.TB, settings *engine.Settings, backends ...string) *router.Fleet {
	t.Helper()
	cfg := router.FleetConfig{Capability: "f", Backends: router.Addrs(backends...),
		Deadlines: router.Deadlines{Default: time.Minute, Max: 2 * time.Minute, Stream: time.Hour}}
	if settings != nil {
		cfg.Protocol = settings
	}
	table, err := router.NewTable(router.Config{Fleets: []router.FleetConfig{cfg}}, nil)
	check.Must(t, err)
	return table.Fleet("f")
}

func reason(r *call.Refusal) string {
	if r == nil {
		return ""
	}
	return r.Reason
}

func TestOwns(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]bool{
		clients + "SendMessage": true, agents + "RunSession": true, clients + "Other": false, clients: false,
		"/openparallax.v2.ClientService/SendMessage": false, "": false, "/p.S/M": false,
	} {
		if got := enginefilter.Owns(path); got != want {
			t.Errorf("%q: %t", path, got)
		}
	}
}

func TestScope(t *testing.T) {
	t.Parallel()
	for path, scope := range map[string]tenant.Scopes{
		clients + "SendMessage": tenant.EngineChat, clients + "Shutdown": tenant.EngineAdmin, agents +
			"RunSession": tenant.EngineAgent,
		engine.Prefix + "SubAgentService/RegisterSubAgent": tenant.EngineSubAgent,
		engine.Prefix + "ShieldService/Evaluate":           tenant.EngineShield,
	} {
		c, _ := filtertest.NewCall()
		c.Info.Path, c.Credential.Scopes = path, scope
		if r := enginefilter.Scope(c); r != nil {
			t.Errorf("%s: with its scope: %s", path, r.Reason)
		}
		c.Credential.Scopes = ^scope
		if r := enginefilter.Scope(c); reason(r) != "SCOPE_MISSING" || r.Metadata["scope"] != scope.String() {
			t.Errorf("%s: with all other scopes: %+v", path, r)
		}
	}
}

func TestFleet(t *testing.T) {
	t.Parallel()
	engines, stoppable := fleet(t, &engine.Settings{}, "a:1"), fleet(t, &engine.Settings{Shutdown: true}, "a:1")
	weather := fleet(t, nil, "a:1")
	for name, test := range map[string]struct {
		filter func(*filter.Call) *call.Refusal
		path   string
		fleet  *router.Fleet
		want   string
	}{
		"a method of engines":       {enginefilter.Fleet, clients + "SendMessage", engines, ""},
		"of another fleet":          {enginefilter.Fleet, clients + "SendMessage", weather, "ENGINE_UNKNOWN"},
		"shutdown":                  {enginefilter.Fleet, clients + "Shutdown", engines, "ENGINE_SHUTDOWN_OFF"},
		"shutdown where it may be":  {enginefilter.Fleet, clients + "Shutdown", stoppable, ""},
		"another method":            {enginefilter.Foreign, "/p.S/M", engines, "METHOD_UNKNOWN"},
		"another method, elsewhere": {enginefilter.Foreign, "/p.S/M", weather, ""},
	} {
		c, _ := filtertest.NewCall()
		c.Info.Path, c.Fleet = test.path, test.fleet
		if got := reason(test.filter(c)); got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}

func TestDirected(t *testing.T) {
	t.Parallel()
	f := fleet(t, &engine.Settings{}, "a:1", "b:2")
	for addr, want := range map[string]string{"": "", "b:2": "b:2", "c:3": "NO_BACKEND"} {
		c, _ := filtertest.NewCall()
		c.Info.Path, c.Fleet, c.Route.Address = clients+"GetHistory", f, addr
		r := enginefilter.Directed(c)
		switch {
		case addr == "c:3":
			if r == nil || c.Route.Directed != nil {
				t.Errorf("%s: %+v; r %+v", addr, c.Attempt, r)
			}
		case r != nil:
			t.Errorf("%q: %s", addr, r.Reason)
		case want == "" && c.Route.Directed != nil, want != "" && c.Route.Directed.Addr != want:
			t.Errorf("%q: it goes to %v", addr, c.Route.Directed)
		}
	}
}

func TestSession(t *testing.T) {
	t.Parallel()
	one, two := fleet(t, &engine.Settings{}, "a:1"), fleet(t, &engine.Settings{}, "a:1", "b:2")
	c, _ := filtertest.NewCall()
	c.Info.Path, c.Fleet = clients+"SendMessage", two
	if !enginefilter.NamesSession(c) {
		t.Error("a message names a session")
	}
	if got := reason(enginefilter.Routed(c)); got != "ENGINE_AMBIGUOUS" {
		t.Errorf("of two engines: %q", got)
	}
	if _, r := enginefilter.ReadSession(c, []byte{0xff}); reason(r) != "REQUEST_MALFORMED" {
		t.Errorf("no message: %+v", r)
	}
	if p, r := enginefilter.ReadSession(c, []byte{2<<3 | 2, 1, 's'}); r != nil || !p.Read || c.Info.Session != "s" {
		t.Errorf("%+v, %+v, %q", p, r, c.Info.Session)
	}
	if r := enginefilter.Routed(c); r != nil {
		t.Errorf("of a session: %s", r.Reason)
	}
	c.Info.Session, c.Fleet = "", one
	if r := enginefilter.Routed(c); r != nil {
		t.Errorf("of one engine: %s", r.Reason)
	}
	c.Info.Path, c.Fleet = clients+"GetStatus", two
	if r := enginefilter.Routed(c); r != nil || enginefilter.NamesSession(c) {
		t.Errorf("any engine may answer: %+v; a session is named: %t", r, enginefilter.NamesSession(c))
	}
}

func TestDeadline(t *testing.T) {
	t.Parallel()
	f := fleet(t, &engine.Settings{}, "a:1")
	for name, test := range map[string]struct {
		path  string
		asked time.Duration // 0 means none
		want  time.Duration
	}{
		"unary":                  {clients + "GetHistory", 0, time.Minute},
		"unary, long":            {clients + "GetHistory", time.Hour, 2 * time.Minute},
		"a stream":               {clients + "SendMessage", 0, time.Hour},
		"without end":            {agents + "RunSession", 0, 0},
		"without end, but asked": {agents + "RunSession", 100 * time.Hour, 100 * time.Hour},
	} {
		c, s := filtertest.NewCall()
		if test.asked > 0 {
			s.SetHeader("grpc-timeout", strconv.FormatInt(test.asked.Milliseconds(), 10)+"m")
		}
		c.Info.Path, c.Fleet = test.path, f
		enginefilter.Deadline(c)
		if c.Deadline != test.want || s.Deadline != test.want {
			t.Errorf("%s: %v, %v, want %v", name, c.Deadline, s.Deadline, test.want)
		}
	}
}

// TestGuard: the guard serves calls of guarded methods alone, and gets their caller and the engine that was picked.
func TestGuard(t *testing.T) {
	t.Parallel()
	f := fleet(t, &engine.Settings{}, "a:1")
	for path, want := range map[string]bool{
		clients + "SendMessage": true, clients + "ListSessions": true, clients + "GetHistory": true,
		clients + "ResolveApproval": true, agents + "RunSession": true,
		clients + "GetStatus": false, clients + "Shutdown": false, engine.Prefix + "ShieldService/Evaluate": false,
	} {
		c, _ := filtertest.NewCall()
		c.Info, c.Fleet, c.Endpoint = call.Call{Path: path, Tenant: "acme", Session: "s"}, f, f.Backends[0]
		step := guard().Admit(c, nil)
		answer := c.Answer()
		if (step == filter.Stop) != want || (answer.Server != nil) != want {
			t.Errorf("%s: step %d, served %t, want %t", path, step, answer.Server != nil, want)
			continue
		}
		if !want {
			continue
		}
		if v := answer.Served; v.Call != c.Info || v.Caller.Tenant != "acme" || v.Fleet != f ||
			v.Endpoint != f.Backends[0] {
			t.Errorf("%s: the guard gets %+v", path, v)
		}
	}
}

// guard returns the filter of a guard that answers nothing.
func guard() enginefilter.Guard {
	return enginefilter.NewGuard(localgrpc.NewBytesServer(func(any, grpc.ServerStream) error { return nil }, 1<<20))
}

// A message of a person passes the guard, and a Shield's question does not.
func ExampleGuard() {
	for _, method := range []string{"ClientService/SendMessage", "ShieldService/Evaluate"} {
		c, _ := filtertest.NewCall()
		c.Info.Path = engine.Prefix + method
		fmt.Println(method, guard().Admit(c, nil) == filter.Stop)
	}
	// Output:
	// ClientService/SendMessage true
	// ShieldService/Evaluate false
}

// A credential that may call capabilities alone may not talk to an engine.
func Example() {
	c, _ := filtertest.NewCall()
	c.Info.Path, c.Credential.Scopes = engine.Prefix+"ClientService/SendMessage", tenant.Invoke
	fmt.Println(enginefilter.Scope(c).Metadata["scope"])
	// Output: engine.chat
}
