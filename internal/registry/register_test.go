package registry_test

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/registry"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/dnstest"
)

// rules permit registrations of weather and gen-*.
func rules(allow ...string) registry.Rules {
	r := registry.Rules{Fleets: map[string]bool{"weather": true}, MinTTL: 5 * time.Second, MaxPerFleet: 50,
		Permissions: registry.Permissions{Capabilities: []string{"gen-*"}, Max: 100}}
	for _, a := range allow {
		r.Allow = append(r.Allow, netip.MustParsePrefix(a))
	}
	return r
}

func weather(addr string) registry.Registration {
	return registry.Registration{Capability: "weather", Addr: addr, Weight: 100, TTL: 30 * time.Second}
}

// reason returns the reason of a refusal, "" for none.
func reason(t *testing.T, err error) string {
	t.Helper()
	var refusal *call.Refusal
	switch {
	case err == nil:
		return ""
	case !errors.As(err, &refusal):
		t.Fatalf("%v is no refusal", err)
	}
	return refusal.Reason
}

func TestRegisterAddresses(t *testing.T) {
	t.Parallel()
	dns := dnstest.Start(t)
	dns.Set("good.test.", "10.0.0.7", "2001:db8::7", "10.0.0.7")
	dns.Set("rebinding.test.", "10.0.0.7", "127.0.0.1")
	dns.Set("metadata.google.internal.", "10.0.0.7")
	const forbidden, bad, nowhere = "ADDRESS_FORBIDDEN", "REGISTRATION_INVALID", "ADDRESS_UNRESOLVED"
	r := registry.New(newMemory(), registry.Settings{Resolution: registry.Resolution{Server: dns.Addr}, Rules: rules()},
		registry.Options{})
	for addr, want := range map[string]string{ // reason, or the addresses that are pinned
		"10.0.0.7:50051":                       "10.0.0.7:50051",
		"[2001:db8::7]:50051":                  "[2001:db8::7]:50051",
		"[2001:DB8:0::7]:050051":               "[2001:db8::7]:50051",
		"[::ffff:10.0.0.7]:1":                  "10.0.0.7:1",
		"[64:ff9b::a00:7]:1":                   "[64:ff9b::a00:7]:1",
		"good.test.:50051":                     "10.0.0.7:50051 [2001:db8::7]:50051",
		"192.168.1.1:1":                        "192.168.1.1:1",
		"100.64.0.1:1":                         "100.64.0.1:1",
		"[fd00::7]:1":                          "[fd00::7]:1",
		"rebinding.test.:1":                    forbidden,
		"gone.test.:1":                         nowhere,
		"metadata.google.internal:80":          forbidden,
		"METADATA.google.internal.:80":         forbidden,
		"metadata:80":                          forbidden,
		"127.0.0.1:1":                          forbidden,
		"127.255.0.1:1":                        forbidden,
		"0.0.0.0:1":                            forbidden,
		"0.1.2.3:1":                            forbidden,
		"169.254.169.254:80":                   forbidden,
		"100.100.100.200:80":                   forbidden,
		"168.63.129.16:80":                     forbidden,
		"192.0.0.192:80":                       forbidden,
		"224.0.0.1:1":                          forbidden,
		"255.255.255.255:1":                    forbidden,
		"240.0.0.1:1":                          forbidden,
		"[::]:1":                               forbidden,
		"[::1]:1":                              forbidden,
		"[0:0:0:0:0:0:0:1]:1":                  forbidden,
		"[fe80::1]:1":                          forbidden,
		"[febf::1]:1":                          forbidden,
		"[fec0::1]:1":                          forbidden,
		"[ff02::1]:1":                          forbidden,
		"[fd00:ec2::254]:80":                   forbidden,
		"[fd20:ce::254]:80":                    forbidden,
		"[::ffff:127.0.0.1]:1":                 forbidden,
		"[::ffff:a9fe:a9fe]:80":                forbidden,
		"[::127.0.0.1]:1":                      forbidden,
		"[::ffff:0:127.0.0.1]:1":               forbidden,
		"[64:ff9b::7f00:1]:1":                  forbidden,
		"[64:ff9b::169.254.169.254]:80":        forbidden,
		"[64:ff9b:1::7f00:1]:1":                forbidden,
		"[64:ff9b:1:7f00:0:100::]:1":           forbidden,
		"[64:ff9b:1:a83f:81:1008:a00:7]:80":    forbidden, // 168.63.129.16, as /48
		"[64:ff9b:1:aa8:3f:8110:a00:7]:80":     forbidden, // the same, as /56
		"[64:ff9b:1:a0b:a8:3f81:1000:7]:80":    forbidden, // as /64
		"[64:ff9b:1:a0b:c0d:e0f:a83f:8110]:80": forbidden, // as /96
		"[2002:7f00:1::]:1":                    forbidden,
		"[2002:a9fe:a9fe::1]:1":                forbidden,
		"[2001:0:a9fe:a9fe::1]:1":              forbidden,
		"[2001:0:808:808:0:0:80ff:fffe]:1":     forbidden,
		"[2001:db8::5efe:127.0.0.1]:1":         forbidden,
		"[2001:db8::200:5efe:7f00:1]:1":        forbidden,
		"2130706433:1":                         forbidden,
		"127.1:1":                              forbidden,
		"0x7f.1:1":                             forbidden,
		"0x7f000001:1":                         forbidden,
		"0177.0.0.01:1":                        forbidden,
		"127.0.0.0x1:1":                        forbidden,
		"":                                     bad,
		":50051":                               bad,
		"10.0.0.7":                             bad,
		"10.0.0.7:":                            bad,
		"10.0.0.7:0":                           bad,
		"10.0.0.7:65536":                       bad,
		"10.0.0.7:http":                        bad,
		"2001:db8::7:50051":                    bad,
		"[fe80::1%eth0]:1":                     bad,
		"[2001:db8::7%25eth0]:1":               bad,
		"http://10.0.0.7:1":                    bad,
		"user@10.0.0.7:1":                      bad,
		"10.0.0.7:1/x":                         bad,
		"a b:1":                                bad,
		"127。0。0。1:1":                          bad,
	} {
		g, err := r.Register(t.Context(), weather(addr))
		got := reason(t, err)
		if err == nil {
			got = pinned(g)
		}
		if got != want {
			t.Errorf("%q: %s, want %s (%v)", addr, got, want, err)
		}
	}
}

// TestRegisterManyAddresses: a name has at most 16 addresses.
func TestRegisterManyAddresses(t *testing.T) {
	t.Parallel()
	dns := dnstest.Start(t)
	var all []string
	for i := range 17 {
		all = append(all, fmt.Sprint("10.0.0.", i+1))
	}
	dns.Set("most.test.", all[:16]...)
	dns.Set("more.test.", all...)
	r := registry.New(newMemory(), registry.Settings{Resolution: registry.Resolution{Server: dns.Addr}, Rules: rules()},
		registry.Options{})
	if g, err := r.Register(t.Context(), weather("most.test.:1")); err != nil || len(g.Pinned) != 16 {
		t.Errorf("16 addresses: %v, %v", g.Pinned, err)
	}
	if _, err := r.Register(t.Context(), weather("more.test.:1")); reason(t, err) != "REGISTRATION_INVALID" {
		t.Errorf("17 addresses: %v", err)
	}
}

// Allowed addresses are accepted in every form, and no other address with them.
func TestRegisterAllowedAddresses(t *testing.T) {
	t.Parallel()
	dns := dnstest.Start(t)
	dns.Set("both.test.", "127.0.0.1", "10.0.0.7")
	dns.Set("more.test.", "127.0.0.1", "169.254.169.254")
	r := registry.New(newMemory(), registry.Settings{
		Resolution: registry.Resolution{Server: dns.Addr}, Rules: rules("127.0.0.0/8", "169.254.7.0/24", "2002::/16"),
	}, registry.Options{})
	for addr, allowed := range map[string]bool{
		"127.0.0.1:1": true, "[::ffff:127.0.0.1]:1": true, "[64:ff9b::7f00:1]:1": true, "both.test.:1": true,
		"169.254.7.9:1": true, "[2002:a9fe:a9fe::1]:1": true,
		"169.254.169.254:1": false, "[64:ff9b::a9fe:a9fe]:1": false, "[::1]:1": false, "more.test.:1": false,
		"metadata:1": false, "127.1:1": false, "0.0.0.0:1": false,
	} {
		if _, err := r.Register(t.Context(), weather(addr)); (err == nil) != allowed {
			t.Errorf("%q: %v", addr, err)
		}
	}
}

func pinned(g registry.Registration) string {
	var all []string
	for _, p := range g.Pinned {
		all = append(all, p.String())
	}
	return strings.Join(all, " ")
}

func TestRegisterFields(t *testing.T) {
	t.Parallel()
	r := registry.New(newMemory(), registry.Settings{Rules: rules()}, registry.Options{})
	for name, test := range map[string]struct {
		change func(*registry.Registration)
		want   string
	}{
		"all of them": {func(g *registry.Registration) {
			g.Weight, g.Zone, g.Session, g.Dialect, g.MaxConcurrent, g.TTL = 0, "eu-1", "s 1", call.Live, 8, time.Hour
		}, ""},
		"allowed by a pattern": {func(g *registry.Registration) { g.Capability = "gen-7" }, ""},
		"no fleet":             {func(g *registry.Registration) { g.Capability = "wether" }, "CAPABILITY_UNKNOWN"},
		"no capability":        {func(g *registry.Registration) { g.Capability = "" }, "REGISTRATION_INVALID"},
		"no name":              {func(g *registry.Registration) { g.Capability = "gen-A" }, "REGISTRATION_INVALID"},
		"short":                {func(g *registry.Registration) { g.TTL = 4 * time.Second }, "REGISTRATION_INVALID"},
		"long":                 {func(g *registry.Registration) { g.TTL = time.Hour + 1 }, "REGISTRATION_INVALID"},
		"weight":               {func(g *registry.Registration) { g.Weight = 10_001 }, "REGISTRATION_INVALID"},
		"less than none":       {func(g *registry.Registration) { g.MaxConcurrent = -1 }, "REGISTRATION_INVALID"},
		"zone":                 {func(g *registry.Registration) { g.Zone = "a/b" }, "REGISTRATION_INVALID"},
		"session":              {func(g *registry.Registration) { g.Session = "a\nb" }, "REGISTRATION_INVALID"},
		"long session": {
			func(g *registry.Registration) { g.Session = strings.Repeat("s", 513) }, "REGISTRATION_INVALID",
		},
		"tenant": {func(g *registry.Registration) { g.Session, g.Tenant = "s", "acme" }, "REGISTRATION_INVALID"},
		"lease":  {func(g *registry.Registration) { g.Lease = strings.Repeat("l", 65) }, "REGISTRATION_INVALID"},
	} {
		g := weather("10.0.0.7:1")
		test.change(&g)
		if _, err := r.Register(t.Context(), g); reason(t, err) != test.want {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
	}
}

// TestRegisterTenant: with tenants a session belongs to one, also in registrations that other replicas accepted.
func TestRegisterTenant(t *testing.T) {
	t.Parallel()
	check.Bubble(t, func(t *testing.T) {
		store, tenants := newMemory(), rules()
		tenants.Tenants = true
		before, r := replica(t, store), runPolling(t, store, registry.Settings{Rules: tenants}, time.Second)
		r.settle(t)
		for name, test := range map[string]struct{ session, tenant, want string }{
			"a session of acme":       {"s", "acme", ""},
			"any session":             {"", "", ""},
			"a session of nobody":     {"s", "", "REGISTRATION_INVALID"},
			"a tenant and no session": {"", "acme", "REGISTRATION_INVALID"},
			"no name of a tenant":     {"s", "a b", "REGISTRATION_INVALID"},
			"far too long":            {"s", strings.Repeat("a", 64), "REGISTRATION_INVALID"},
		} {
			g := weather("10.0.0.7:1")
			g.Session, g.Tenant = test.session, test.tenant
			_, err := r.Register(t.Context(), g)
			if reason(t, err) != test.want || err != nil && !strings.Contains(err.Error(), "tenant: ") {
				t.Errorf("%s: %v, want %q", name, err, test.want)
			}
		}
		register(t, r, weather("10.0.0.7:1"))
		ofNobody := weather("10.0.0.8:1")
		ofNobody.Session = "s"
		register(t, before, ofNobody)
		before.sees(t, seven, "weather 10.0.0.8:1 100 session=s 10.0.0.8 registration")
		r.sees(t, seven)
	})
}

func TestRegisterBounds(t *testing.T) {
	t.Parallel()
	few := rules()
	few.Max, few.MaxPerFleet = 3, 2
	r := registry.New(newMemory(), registry.Settings{Rules: few}, registry.Options{})
	take := func(capability, addr, want string) {
		t.Helper()
		g := weather(addr)
		g.Capability = capability
		if _, err := r.Register(t.Context(), g); reason(t, err) != want {
			t.Errorf("%s %s: %v, want %q", capability, addr, err, want)
		}
	}
	take("weather", "10.0.0.1:1", "")
	take("weather", "10.0.0.2:1", "")
	take("weather", "10.0.0.3:1", "REGISTRATIONS_FULL")
	take("weather", "10.0.0.2:1", "")
	take("gen-1", "10.0.0.3:1", "")
	take("gen-2", "10.0.0.3:1", "REGISTRATIONS_FULL")
}

// FuzzRegister checks that no form of an address leads to a forbidden one.
func FuzzRegister(f *testing.F) {
	for _, seed := range []string{
		"127.0.0.1:1", "[::ffff:127.0.0.1]:1", "[2002:7f00:1::]:1", "0x7f.1:1", "10.0.0.7:1", "[64:ff9b::a9fe:a9fe]:80",
		"localhost:1", "[fe80::1%25lo]:1",
	} {
		f.Add(seed)
	}
	// A resolver without answers: only literal addresses are pinned.
	r := registry.New(newMemory(), registry.Settings{Rules: rules(),
		Resolution: registry.Resolution{Server: "127.0.0.1:1"}}, registry.Options{})
	f.Fuzz(func(t *testing.T, addr string) {
		if host, _, _ := strings.Cut(addr, ":"); call.IsHostName(host) {
			if _, err := netip.ParseAddr(host); err != nil {
				return // a name, to be resolved
			}
		}
		g, err := r.Register(t.Context(), weather(addr))
		if err != nil {
			if reason(t, err) == "" {
				t.Error("no reason")
			}
			return
		}
		for _, p := range g.Pinned {
			a := p.Addr()
			if a.Is4In6() || a.IsLoopback() || a.IsUnspecified() || a.IsMulticast() || a.IsLinkLocalUnicast() ||
				p.Port() == 0 {
				t.Errorf("%q is pinned to %s", addr, p)
			}
		}
	})
}
