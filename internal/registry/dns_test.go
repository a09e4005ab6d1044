package registry_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/capgate/capgate/internal/registry"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/dnstest"
)

// runningRegistry is a registry and its changes.
type runningRegistry struct {
	*registry.Registry
	changed chan struct{} // a token after every change
	changes func() int    // so far
}

// run starts a registry that ends with the test.
func run(t *testing.T, leases registry.Leases, s registry.Settings) *runningRegistry {
	t.Helper()
	return runPolling(t, leases, s, 20*time.Millisecond)
}

func runPolling(t *testing.T, leases registry.Leases, s registry.Settings, poll time.Duration) *runningRegistry {
	t.Helper()
	return runWith(t, leases, s, registry.Options{Poll: poll})
}

func runWith(t *testing.T, leases registry.Leases, s registry.Settings, o registry.Options) *runningRegistry {
	t.Helper()
	var mu sync.Mutex
	n := 0
	w := &runningRegistry{changed: make(chan struct{}, 1)}
	w.changes = func() int {
		mu.Lock()
		defer mu.Unlock()
		return n
	}
	o.Changed = func() {
		mu.Lock()
		n++
		mu.Unlock()
		select {
		case w.changed <- struct{}{}:
		default:
		}
	}
	w.Registry = registry.New(leases, s, o)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		check.Received(t, done, "the source to stop")
	})
	return w
}

// wait returns when the members read as wanted.
func (w *runningRegistry) wait(t *testing.T, want ...string) {
	t.Helper()
	check.UntilEvent(t, fmt.Sprintf("the members %q", want), func() (bool, []string, <-chan struct{}) {
		got := describe(w.Members())
		return slices.Equal(got, want), got, w.changed
	})
}

// settle waits for the first look at everything.
func (w *runningRegistry) settle(t *testing.T) {
	t.Helper()
	check.Received(t, w.Settled(), "the first look at everything")
}

// describe is each member in a line: capability addr weight@zone session host.
func describe(members []registry.Member) []string {
	var lines []string
	for _, m := range members {
		line := fmt.Sprintf("%s %s %d", m.Capability, m.Addr, m.Weight)
		if m.Zone != "" {
			line += "@" + m.Zone
		}
		if m.Session != "" {
			line += " session=" + m.Session
		}
		lines = append(lines, line+" "+m.ServerName+" "+string(m.Source))
	}
	return lines
}

func target(t *testing.T, capability, entry string) registry.Target {
	t.Helper()
	name, err := registry.ParseName(entry)
	check.Must(t, err)
	return registry.Target{Capability: capability, Name: name, Weight: 100}
}

func look(dns *dnstest.Server, targets ...registry.Target) registry.Settings {
	return registry.Settings{Targets: targets,
		Resolution: registry.Resolution{Server: dns.Addr, Resolve: 10 * time.Millisecond}}
}

func TestDNSFollowsTheAnswer(t *testing.T) {
	t.Parallel()
	dns := dnstest.Start(t)
	dns.Set("weather.test.", "192.0.2.1", "2001:db8::1")
	near := target(t, "near", "dns:///weather.test.:7")
	near.Weight, near.Zone = 5, "a"
	w := run(t, newMemory(), look(dns, target(t, "weather", "dns:///weather.test.:50051"), near))
	w.settle(t)
	both := []string{
		"near 192.0.2.1:7 5@a weather.test dns", "near [2001:db8::1]:7 5@a weather.test dns",
		"weather 192.0.2.1:50051 100 weather.test dns", "weather [2001:db8::1]:50051 100 weather.test dns",
	}
	w.wait(t, both...)

	dns.Set("weather.test.", "192.0.2.1", "192.0.2.2")
	w.wait(t, "near 192.0.2.1:7 5@a weather.test dns", "near 192.0.2.2:7 5@a weather.test dns",
		"weather 192.0.2.1:50051 100 weather.test dns", "weather 192.0.2.2:50051 100 weather.test dns")

	// A name that is no longer requested is removed; the other stays.
	w.Set(look(dns, near))
	w.wait(t, "near 192.0.2.1:7 5@a weather.test dns", "near 192.0.2.2:7 5@a weather.test dns")
	dns.Set("other.test.", "192.0.2.9")
	w.Set(look(dns, target(t, "a", "dns:///other.test.:1")))
	w.wait(t, "a 192.0.2.9:1 100 other.test dns")
}

// Answers that fail, are empty, or come in another order change nothing.
func TestDNSKeepsTheLastAnswer(t *testing.T) {
	t.Parallel()
	dns := dnstest.Start(t)
	dns.Set("weather.test.", "192.0.2.1", "192.0.2.2", "192.0.2.2")
	w := run(t, newMemory(), look(dns, target(t, "weather", "dns:///weather.test.:50051"),
		target(t, "none", "dns:///none.test.:1")))
	w.settle(t)
	want := []string{"weather 192.0.2.1:50051 100 weather.test dns", "weather 192.0.2.2:50051 100 weather.test dns"}
	w.wait(t, want...)
	changes := w.changes()
	for _, trouble := range []func(){
		func() { dns.Fail(true) },
		func() { dns.Fail(false); dns.Set("weather.test.") },
	} {
		trouble()
		failed := w.Stats().LookupsFailed
		check.Until(t, "six failed lookups of two names", func() (bool, string) {
			s := w.Stats()
			return s.LookupsFailed >= failed+6, fmt.Sprintf("%+v", s)
		})
	}
	dns.Set("weather.test.", "192.0.2.2", "192.0.2.1")
	dns.Set("none.test.", "192.0.2.7") // and when this is seen, so was the rotation, some looks later
	w.wait(t, append([]string{"none 192.0.2.7:1 100 none.test dns"}, want...)...)
	if n := w.changes(); n > changes+1 {
		t.Errorf("%d changes, want 1", n-changes)
	}
}

// An answer that does not fit into a datagram is asked for over TCP, and a name has at most
// 1024 addresses.
func TestDNSLongAnswers(t *testing.T) {
	t.Parallel()
	dns := dnstest.Start(t)
	var many []string
	for i := range 2000 {
		many = append(many, fmt.Sprintf("198.18.%d.%d", i/250, i%250))
	}
	slices.Reverse(many)
	dns.Set("many.test.", many...)
	w := run(t, newMemory(), look(dns, target(t, "many", "dns:///many.test.:1")))
	w.settle(t)
	if n := len(w.Members()); n != 1024 {
		t.Errorf("%d members, want 1024", n)
	}
	if first := w.Members()[0].Addr; first != "198.18.0.0:1" {
		t.Errorf("the first is %s: which are left out depends on the order of the answer", first)
	}
	select {
	case <-dns.TCP:
	default:
		t.Error("nothing was asked over TCP")
	}
}

func TestDNSSRV(t *testing.T) {
	t.Parallel()
	const name = "_grpc._tcp.weather.test."
	for what, test := range map[string]struct {
		records []dnsmessage.SRVResource
		weight  int
		want    []string
	}{
		"ports and weights": {[]dnsmessage.SRVResource{
			dnstest.SRV(1, 30, 7001, "b.test."), dnstest.SRV(1, 0, 7000, "a.test."),
		}, 100,
			[]string{
				"c 192.0.2.1:7000 1 weather.test dns", "c 192.0.2.2:7001 30 weather.test dns",
				"c 192.0.2.3:7001 30 weather.test dns",
			}},
		"no weights": {
			[]dnsmessage.SRVResource{
				dnstest.SRV(1, 0, 7, "a.test."), dnstest.SRV(1, 0, 8, "b.test."),
			}, 50, []string{
				"c 192.0.2.1:7 50 weather.test dns", "c 192.0.2.2:8 50 weather.test dns",
				"c 192.0.2.3:8 50 weather.test dns",
			},
		},
		"weight 0 in the file": {
			[]dnsmessage.SRVResource{dnstest.SRV(1, 9, 7, "a.test.")}, 0, []string{"c 192.0.2.1:7 0 weather.test dns"},
		},
		"large weights": {
			[]dnsmessage.SRVResource{
				dnstest.SRV(1, 65535, 7, "a.test."), dnstest.SRV(1, 6553, 8, "b.test."),
			}, 100, []string{
				"c 192.0.2.1:7 10000 weather.test dns", "c 192.0.2.2:8 999 weather.test dns",
				"c 192.0.2.3:8 999 weather.test dns",
			},
		},
		"lowest priority only": {
			[]dnsmessage.SRVResource{
				dnstest.SRV(2, 1, 7, "b.test."), dnstest.SRV(1, 1, 7, "a.test."),
			}, 100, []string{"c 192.0.2.1:7 1 weather.test dns"},
		},
		"the next stands by": {
			[]dnsmessage.SRVResource{
				dnstest.SRV(2, 1, 7, "a.test."), dnstest.SRV(1, 1, 7, "gone.test."),
			}, 100, []string{"c 192.0.2.1:7 1 weather.test dns"},
		},
		"one target is gone": {
			[]dnsmessage.SRVResource{
				dnstest.SRV(1, 1, 7, "a.test."), dnstest.SRV(1, 1, 7, "gone.test."),
			}, 100, []string{"c 192.0.2.1:7 1 weather.test dns"},
		},
		"none": {nil, 100, nil},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			dns := dnstest.Start(t)
			dns.Set("a.test.", "192.0.2.1")
			dns.Set("b.test.", "192.0.2.2", "192.0.2.3")
			dns.SetSRV(name, test.records...)
			srv := target(t, "c", "dns:///"+name)
			srv.Weight = test.weight
			w := run(t, newMemory(), look(dns, srv))
			w.settle(t)
			w.wait(t, test.want...)
		})
	}
}

func TestParseName(t *testing.T) {
	t.Parallel()
	for entry, want := range map[string]string{ // a name, or the beginning of an error
		"dns:///weather.ns.svc:50051":                 "dns:///weather.ns.svc:50051",
		"dns:///weather_1:1":                          "dns:///weather_1:1",
		"dns:///_grpc._tcp.weather.ns.svc":            "dns:///_grpc._tcp.weather.ns.svc",
		"dns:weather:1":                               `"dns:weather:1" is not a name for DNS; write dns:///host:port`,
		"dns://weather:1":                             "write three slashes, as in dns:///weather:1",
		"dns://10.0.0.1/weather:1":                    "a server for one name is not possible; write dns:///weather:1",
		"dns:///weather":                              `"weather" has no port`,
		"dns:///weather:0":                            `port "0" must be`,
		"dns:///weather:99999":                        `port "99999" must be`,
		"dns:///10.0.0.7:1":                           "10.0.0.7 is an address already; write it without dns:///",
		"dns:///[2001:db8::1]:1":                      "2001:db8::1 is an address already",
		"dns:///wea ther:1":                           `host "wea ther" is not a host name`,
		"dns:///_grpc._tcp.weather:1":                 "SRV records have ports of their own",
		"dns:///_grpc.weather.ns":                     `"_grpc.weather.ns" is not a name of SRV records`,
		"dns:///_grpc._tcp":                           `"_grpc._tcp" is not`,
		"dns:///_._tcp.weather":                       `"_._tcp.weather" is not`,
		"dns:///" + strings.Repeat("a.", 200) + "a:1": `host "a.a.`,
	} {
		name, err := registry.ParseName(entry)
		got := name.String()
		if err != nil {
			got = err.Error()
		}
		if !strings.HasPrefix(got, want) || err == nil && got != want {
			t.Errorf("%s: %s, want %s", entry, got, want)
		}
	}
}
