package kubernetes_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/kubeapi"
	"github.com/capgate/capgate/internal/registry"
	"github.com/capgate/capgate/internal/registry/kubernetes"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/kubetest"
)

const plural = kubetest.EndpointSlices

// running is a Discovery that runs until the test ends.
type running struct {
	*kubernetes.Discovery
	changed chan struct{}
	log     *logged
}

type logged struct {
	mu  sync.Mutex
	all bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.String()
}

func run(t *testing.T, s *kubetest.Server, settings kubernetes.Settings) *running {
	t.Helper()
	return runReading(t, s, settings, readManifest)
}

// runReading reads manifests with a function.
func runReading(t *testing.T, s *kubetest.Server, settings kubernetes.Settings,
	read func(string) (registry.Document, *call.Refusal)) *running {
	t.Helper()
	c := kubeapi.New(kubeapi.Config{Address: s.URL, CAFile: s.CAFile, TokenFile: s.TokenFile})
	r := &running{changed: make(chan struct{}, 1), log: &logged{}}
	changed := func() {
		select {
		case r.changed <- struct{}{}:
		default:
		}
	}
	r.Discovery = kubernetes.New(c, settings, kubernetes.Options{Namespace: "own", ReadManifest: read,
		Changed: changed, Log: slog.New(slog.NewTextHandler(r.log, nil)),
		Mirrors: kubeapi.Options{First: time.Millisecond, Max: 20 * time.Millisecond}})
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	all.Go(func() { r.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		check.Ended(t, &all, "the discovery")
		c.Close()
	})
	check.Must(t, r.Await(check.Context(t)))
	return r
}

// has waits until the members are as wanted: capability addr weight@zone host.
func (r *running) has(t *testing.T, want ...string) {
	t.Helper()
	check.UntilEvent(t, fmt.Sprintf("the members %q", want), func() (bool, []string, <-chan struct{}) {
		got := describe(r.Members())
		return slices.Equal(got, want), got, r.changed
	})
}

func describe(members []registry.Member) []string {
	var lines []string
	for _, m := range members {
		line := fmt.Sprintf("%s %s %d", m.Capability, m.Addr, m.Weight)
		if m.Zone != "" {
			line += "@" + m.Zone
		}
		lines = append(lines, line+" "+m.ServerName)
	}
	return lines
}

// target is a fleet of a Service in the namespace tools.
func target(capability, service, port string) kubernetes.Target {
	return kubernetes.Target{Capability: capability, Weight: 100,
		Source: kubernetes.Source{Namespace: "tools", Service: service, Port: port}}
}

func of(targets ...kubernetes.Target) kubernetes.Settings {
	return kubernetes.Settings{Targets: targets}
}

// TestEndpoints: which endpoints of a Service are backends, with which weight, zone and port.
func TestEndpoints(t *testing.T) {
	t.Parallel()
	type object = kubetest.Object
	ep := func(addr string, state kubetest.Condition) kubetest.Endpoint {
		return kubetest.Endpoint{Addr: addr, Pod: "pod of " + addr, State: state}
	}
	pod := func(addr, pod string) kubetest.Endpoint { return kubetest.Endpoint{Addr: addr, Pod: pod} }
	weather := func(port int, all ...kubetest.Endpoint) object { return kubetest.Slice("weather", port, all...) }
	two := []object{{"name": "http", "port": 80, "protocol": "TCP"}, {"name": "rpc", "port": 50051, "protocol": "TCP"}}
	typed := []object{{"name": "http", "port": 80, "appProtocol": "http"},
		{"name": "rpc", "port": 50051, "appProtocol": "kubernetes.io/h2c"},
		{"name": "dns", "port": 53, "protocol": "UDP"}}
	for name, test := range map[string]struct {
		port   string
		slices []object
		want   []string // without the capability and the host
		log    string
	}{
		"ready": {"", []object{weather(50051, ep("10.0.0.2", kubetest.Ready), ep("10.0.0.1", kubetest.Unknown),
			ep("10.0.0.3", kubetest.Starting), ep("10.0.0.4", kubetest.Gone))},
			[]string{"10.0.0.1:50051 100", "10.0.0.2:50051 100"}, ""},
		"leaving beside others": {"", []object{weather(1, ep("10.0.0.1", kubetest.Leaving),
			ep("10.0.0.2", kubetest.Ready))}, []string{"10.0.0.1:1 0", "10.0.0.2:1 100"}, ""},
		"leaving, and nothing else": {"", []object{weather(1, ep("10.0.0.1", kubetest.Leaving),
			ep("10.0.0.2", kubetest.Starting), ep("10.0.0.3", kubetest.Gone))}, []string{"10.0.0.1:1 100"}, ""},
		"zones": {"", []object{weather(1, kubetest.Endpoint{Addr: "10.0.0.1", Zone: "eu-1a"},
			kubetest.Endpoint{Addr: "10.0.0.2", Zone: "not a zone"})},
			[]string{"10.0.0.1:1 100@eu-1a", "10.0.0.2:1 100"}, ""},
		"a pod in two slices": {"", []object{weather(1, ep("10.0.0.1", kubetest.Starting)),
			weather(1, ep("10.0.0.1", kubetest.Ready)), weather(1, ep("10.0.0.1", kubetest.Leaving))},
			[]string{"10.0.0.1:1 100"}, ""},
		"an address without a pod in two slices": {"", []object{weather(1, kubetest.Endpoint{Addr: "10.0.0.1",
			State: kubetest.Leaving}), weather(1, kubetest.Endpoint{Addr: "10.0.0.1"})},
			[]string{"10.0.0.1:1 100"}, ""},
		"dual stack": {"", []object{weather(1, pod("2001:db8::1", "a"), pod("2001:db8::2", "b")),
			weather(1, pod("10.0.0.1", "a"))}, []string{"10.0.0.1:1 100", "[2001:db8::2]:1 100"}, ""},
		"IPv6": {"", []object{weather(1, pod("2001:db8::1", "a"))}, []string{"[2001:db8::1]:1 100"}, ""},
		"named port": {"rpc", []object{kubetest.WithPorts(weather(1, pod("10.0.0.1", "a")), two...)},
			[]string{"10.0.0.1:50051 100"}, ""},
		"numbered port": {"80", []object{kubetest.WithPorts(weather(1, pod("10.0.0.1", "a")), two...)},
			[]string{"10.0.0.1:80 100"}, ""},
		"port by appProtocol": {"", []object{kubetest.WithPorts(weather(1, pod("10.0.0.1", "a")), typed...)},
			[]string{"10.0.0.1:50051 100"}, ""},
		"a named port that differs between slices": {"grpc", []object{weather(1, pod("10.0.0.1", "a")),
			weather(2, pod("10.0.0.2", "b"))}, []string{"10.0.0.1:1 100", "10.0.0.2:2 100"}, ""},
		"ambiguous port": {"", []object{kubetest.WithPorts(weather(1, pod("10.0.0.1", "a")), two...)}, nil,
			"endpointslice tools/s0: has the ports http, rpc; name one with port"},
		"unknown port": {"metrics", []object{kubetest.WithPorts(weather(1, pod("10.0.0.1", "a")), two...)}, nil,
			"endpointslice tools/s0: has no port metrics; it has http, rpc"},
		"no port": {"", []object{kubetest.WithPorts(weather(1, pod("10.0.0.1", "a")))}, nil,
			"endpointslice tools/s0: has no TCP port"},
		"names": {"", []object{func() object {
			s := weather(1, pod("weather.example.com", "a"))
			s["addressType"] = "FQDN"
			return s
		}()}, nil, "address type \\\"FQDN\\\" is not supported"},
		"forbidden addresses": {"", []object{weather(1, pod("127.0.0.1", "a"), pod("169.254.169.254", "b"),
			pod("10.0.0.1", "c"))}, []string{"10.0.0.1:1 100"},
			"127.0.0.1 is loopback; registration.allow can permit it"},
		"another service": {"", []object{kubetest.Slice("words", 1, pod("10.0.0.1", "a"))}, nil, ""},
		"none":            {"", []object{weather(1)}, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := kubetest.Start(t)
			for i, slice := range test.slices {
				s.Put(plural, "tools", fmt.Sprint("s", i), slice)
			}
			r := run(t, s, of(target("w", "weather", test.port)))
			var want []string
			for _, line := range test.want {
				want = append(want, "w "+line+" weather.tools.svc")
			}
			r.has(t, want...)
			if log := r.log.String(); !strings.Contains(log, test.log) || (test.log == "") != (log == "") {
				t.Errorf("the log is %s", log)
			}
			if got := strings.Join(r.Warnings(), "\n"); (test.log == "") != (got == "") {
				t.Errorf("the warnings are %s", got)
			}
		})
	}
}

// TestPermittedAddresses: registration.allow permits addresses that are forbidden otherwise.
func TestPermittedAddresses(t *testing.T) {
	t.Parallel()
	s := kubetest.Start(t)
	s.Put(plural, "tools", "s", kubetest.Slice("weather", 1, kubetest.Endpoint{Addr: "127.0.0.1"}))
	settings := of(target("w", "weather", ""))
	settings.Rules.Allow = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	run(t, s, settings).has(t, "w 127.0.0.1:1 100 weather.tools.svc")
}

// TestSelectedServices: a selector chooses Services of its namespace by their labels.
func TestSelectedServices(t *testing.T) {
	t.Parallel()
	s := kubetest.Start(t)
	put := func(namespace, service, addr string, labels ...string) {
		s.Put(plural, namespace, service+"-x", kubetest.WithLabels(kubetest.Slice(service, 1,
			kubetest.Endpoint{Addr: addr, Pod: addr}), labels...))
	}
	put("tools", "stable", "10.0.0.1", "app=weather", "tier=tools")
	put("tools", "canary", "10.0.0.2", "app=weather", "tier=tools", "canary=yes")
	put("tools", "words", "10.0.0.3", "app=words", "tier=tools")
	put("tools", "web", "10.0.0.4", "app=web")
	put("other", "stable", "10.0.0.5", "app=weather", "tier=tools")
	for selector, want := range map[string][]string{
		"app=weather":                           {"1", "2"},
		"app == weather, canary != yes":         {"1"},
		"tier":                                  {"1", "2", "3"},
		"!tier":                                 {"4"},
		"app in (weather, web),!canary":         {"1", "4"},
		"app notin (weather),tier=tools":        {"3"},
		"kubernetes.io/service-name in (words)": {"3"},
		"app=":                                  nil,
	} {
		t.Run(selector, func(t *testing.T) {
			t.Parallel()
			one := target("w", "", "")
			one.Selector = selector
			r := run(t, s, of(one))
			var got []string
			for _, m := range r.Members() {
				got = append(got, strings.TrimSuffix(strings.TrimPrefix(m.Addr, "10.0.0."), ":1"))
			}
			if !slices.Equal(got, want) {
				t.Errorf("%q, want %q", got, want)
			}
		})
	}
}

// TestSelectorErrors: what is no selector is an error.
func TestSelectorErrors(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"a b", "app in weather", "=b", "a=b=c", "a in (b", "-a", "a=-b", "A/b=c"} {
		if s, err := kubernetes.ParseSelector(text); err == nil {
			t.Errorf("%q is %+v", text, s)
		}
	}
}

// TestOneWatchPerNamespace: fleets share it, and it ends with the last fleet of its namespace.
func TestOneWatchPerNamespace(t *testing.T) {
	t.Parallel()
	s := kubetest.Start(t)
	s.Put(plural, "tools", "a", kubetest.Slice("a", 1, kubetest.Endpoint{Addr: "10.0.0.1"}))
	s.Put(plural, "tools", "b", kubetest.Slice("b", 1, kubetest.Endpoint{Addr: "10.0.0.2"}))
	s.Put(plural, "own", "c", kubetest.Slice("c", 1, kubetest.Endpoint{Addr: "10.0.0.3"}))
	own := target("c", "c", "")
	own.Namespace = "" // the gateway's
	r := run(t, s, of(target("a", "a", ""), target("b", "b", ""), own))
	r.has(t, "a 10.0.0.1:1 100 a.tools.svc", "b 10.0.0.2:1 100 b.tools.svc", "c 10.0.0.3:1 100 c.own.svc")
	watches := func(want int) {
		t.Helper()
		check.Until(t, fmt.Sprint(want, " watches"), func() (bool, string) {
			n := s.Watches()
			return n == want, fmt.Sprint(n)
		})
	}
	watches(2)
	r.Set(of(target("b", "b", ""), own))
	check.Must(t, r.Await(check.Context(t)))
	r.has(t, "b 10.0.0.2:1 100 b.tools.svc", "c 10.0.0.3:1 100 c.own.svc")
	watches(2)
	if n := s.Requests("list", plural); n != 2 {
		t.Errorf("%d lists, want one for each namespace", n)
	}
	r.Set(of(own))
	watches(1)
	r.has(t, "c 10.0.0.3:1 100 c.own.svc")
	r.Set(of())
	watches(0)
	r.has(t)
}

// TestBackendsStayWhileTheServerIsAway, with a warning for operators, and follow the slices when it is back.
func TestBackendsStayWhileTheServerIsAway(t *testing.T) {
	t.Parallel()
	s := kubetest.Start(t)
	s.Put(plural, "tools", "s", kubetest.Slice("weather", 1, kubetest.Endpoint{Addr: "10.0.0.1"}))
	r := run(t, s, of(target("w", "weather", "")))
	r.has(t, "w 10.0.0.1:1 100 weather.tools.svc")
	s.Away(true)
	check.Until(t, "a warning", func() (bool, string) {
		text := strings.Join(r.Warnings(), "\n")
		return strings.Contains(text, "endpointslices.discovery.k8s.io in namespace tools cannot be followed for"), text
	})
	r.has(t, "w 10.0.0.1:1 100 weather.tools.svc")
	s.Delete(plural, "tools", "s")
	s.Put(plural, "tools", "s2", kubetest.Slice("weather", 1, kubetest.Endpoint{Addr: "10.0.0.2"}))
	s.Expire(kubetest.AsStatus)
	s.Away(false)
	r.has(t, "w 10.0.0.2:1 100 weather.tools.svc")
	check.Until(t, "no warning", func() (bool, string) {
		text := strings.Join(r.Warnings(), "\n")
		return text == "", text
	})
}

// TestManyEndpoints: 5,000 endpoints in 50 slices, and a change of all slices.
func TestManyEndpoints(t *testing.T) {
	t.Parallel()
	s := kubetest.Start(t)
	put := func(third int) {
		for i := range 50 {
			var all []kubetest.Endpoint
			for j := range 100 {
				n := i*100 + j
				all = append(all, kubetest.Endpoint{Addr: fmt.Sprintf("10.%d.%d.%d", third, n/250, n%250),
					Pod: fmt.Sprint(third, " ", n), Zone: "z"})
			}
			s.Put(plural, "tools", fmt.Sprint("s", i), kubetest.Slice("weather", 1, all...))
		}
	}
	put(1)
	r := run(t, s, of(target("w", "weather", "")))
	count := func(prefix string) {
		t.Helper()
		check.UntilEvent(t, "5,000 members at "+prefix, func() (bool, int, <-chan struct{}) {
			n := 0
			for _, m := range r.Members() {
				if strings.HasPrefix(m.Addr, prefix) {
					n++
				}
			}
			return n == 5000 && len(r.Members()) == n, n, r.changed
		})
	}
	count("10.1.")
	put(2)
	count("10.2.")
	if n := s.Requests("list", plural); n != 1 {
		t.Errorf("%d lists", n)
	}
}
