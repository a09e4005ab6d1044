package kubernetes_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/capgate/capgate/internal/registry/kubernetes"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/kubetest"
)

// announce puts a Service with annotations and one ready pod.
func announce(s *kubetest.Server, namespace, name, addr string, annotations ...string) {
	for i := range annotations {
		annotations[i] = "capgate.dev/" + annotations[i]
	}
	s.Put(kubetest.Services, namespace, name, kubetest.Service([]string{"tier=tools"}, annotations...))
	s.Put(plural, namespace, name+"-x", kubetest.Slice(name, 1, kubetest.Endpoint{Addr: addr, Pod: addr}))
}

// TestAnnouncedCapabilities: Services with annotations are found and followed, with what the annotations say.
func TestAnnouncedCapabilities(t *testing.T) {
	t.Parallel()
	s := kubetest.Start(t)
	announce(s, "tools", "weather", "10.0.0.1", "capability=weather", "port=grpc")
	announce(s, "tools", "canary", "10.0.0.2", "capability=weather", "weight=5", "dialect=live")
	announce(s, "tools", "plain", "10.0.0.3")
	announce(s, "other", "words", "10.0.0.4", "capability=words")
	s.Put(kubetest.Services, "tools", "web", kubetest.Service(nil, "capgate.dev/capability=web")) // without the label
	watch := kubernetes.Watch{Enabled: true, Namespaces: []string{"tools"}, Selector: "tier=tools"}
	r := run(t, s, kubernetes.Settings{Watch: watch})
	r.has(t, "weather 10.0.0.1:1 100 weather.tools.svc", "weather 10.0.0.2:1 5 canary.tools.svc")
	if m := r.Members(); m[1].Dialect.String() != "live" || m[0].Dialect.String() != "auto" {
		t.Errorf("%+v", m)
	}

	announce(s, "tools", "plain", "10.0.0.3", "capability=plain")
	s.Delete(kubetest.Services, "tools", "weather") // its slice is still there
	r.has(t, "plain 10.0.0.3:1 100 plain.tools.svc", "weather 10.0.0.2:1 5 canary.tools.svc")

	watch.Namespaces = []string{"*"}
	r.Set(kubernetes.Settings{Watch: watch})
	check.Must(t, r.Await(check.Context(t)))
	r.has(t, "plain 10.0.0.3:1 100 plain.tools.svc", "weather 10.0.0.2:1 5 canary.tools.svc",
		"words 10.0.0.4:1 100 words.other.svc")
	check.Until(t, "one watch for each kind", func() (bool, string) {
		n := s.Watches()
		return n == 2, fmt.Sprint(n)
	})

	watch.Capabilities = []string{"w*"}
	r.Set(kubernetes.Settings{Watch: watch})
	r.has(t, "weather 10.0.0.2:1 5 canary.tools.svc", "words 10.0.0.4:1 100 words.other.svc")
	r.Set(kubernetes.Settings{})
	r.has(t)
}

// TestServicesAddToNoFleet: a Service adds backends to a fleet of the file only if the file permits it.
func TestServicesAddToNoFleet(t *testing.T) {
	t.Parallel()
	s := kubetest.Start(t)
	announce(s, "own", "mine", "10.0.0.1", "capability=weather")
	announce(s, "own", "theirs", "10.0.0.2", "capability=mail")
	watch := kubernetes.Watch{Enabled: true, Listed: map[string]kubernetes.Protocol{"mail": {}}}
	r := run(t, s, kubernetes.Settings{Watch: watch})
	r.has(t, "weather 10.0.0.1:1 100 mine.own.svc")
	if text := strings.Join(r.Warnings(), "\n"); !strings.Contains(text, "mail has a fleet in the configuration") {
		t.Error(text)
	}
	watch.Capabilities = []string{"*"}
	r.Set(kubernetes.Settings{Watch: watch})
	r.has(t, "mail 10.0.0.2:1 100 theirs.own.svc", "weather 10.0.0.1:1 100 mine.own.svc")
}

// TestWrongAnnotations are problems of their Services alone.
func TestWrongAnnotations(t *testing.T) {
	t.Parallel()
	for annotations, want := range map[string]string{
		"capability=Weather":                       `own/bad: capgate.dev/capability: "Weather" is not a capability id`,
		"capability=secret":                        `does not permit secret`,
		"capability=weather,weight=-1":             `capgate.dev/weight: "-1" must be a whole number from 0 to 10000`,
		"capability=weather,dialect=x":             `capgate.dev/dialect: "x" must be auto, doc, live or legacy`,
		"capability=weather,protocol=grpc_service": `capgate.dev/protocol: "grpc_service" must be selu or mcp; fleets`,
		"capability=weather,protocol=mcp":          `own/bad: capgate.dev/protocol: the fleet in the configuration has`,
		"capability=wet,path=x?y":                  `own/bad: capgate.dev/path: "x?y" is not the path of a URL`,
		"capability=weather,port=http":             `weather: endpointslice own/bad-x: has no port http; it has grpc`,
	} {
		t.Run(annotations, func(t *testing.T) {
			t.Parallel()
			s := kubetest.Start(t)
			announce(s, "own", "good", "10.0.0.1", "capability=weather")
			announce(s, "own", "bad", "10.0.0.2", strings.Split(annotations, ",")...)
			r := run(t, s, kubernetes.Settings{Watch: kubernetes.Watch{Enabled: true, Capabilities: []string{"we*"},
				Listed: map[string]kubernetes.Protocol{"weather": {}}}})
			r.has(t, "weather 10.0.0.1:1 100 good.own.svc")
			if text := strings.Join(r.Warnings(), "\n"); !strings.Contains(text, want) {
				t.Errorf("%s, want %s", text, want)
			}
		})
	}
}

// TestAnnouncedProtocol: a Service announces MCP servers, whose addresses are URLs. Those of a capability have one
// protocol: that of the first Service by name.
func TestAnnouncedProtocol(t *testing.T) {
	t.Parallel()
	s := kubetest.Start(t)
	announce(s, "own", "a", "10.0.0.1", "capability=web", "protocol=mcp", "path=/x")
	announce(s, "own", "b", "10.0.0.2", "capability=web")
	announce(s, "own", "c", "fd00::3", "capability=filed", "protocol=mcp")
	announce(s, "own", "d", "10.0.0.4", "capability=filed")
	r := run(t, s, kubernetes.Settings{Watch: kubernetes.Watch{Enabled: true, Capabilities: []string{"*"},
		Listed: map[string]kubernetes.Protocol{"filed": {Web: "mcp", Secure: true}}}})
	r.has(t, "filed https://10.0.0.4:1/mcp 100 d.own.svc", "filed https://[fd00::3]:1/mcp 100 c.own.svc",
		"web http://10.0.0.1:1/x 100 a.own.svc")
	if m := r.Members(); m[0].Protocol != "mcp" || m[2].Protocol != "mcp" {
		t.Errorf("%+v", m)
	}
	const want = "service own/b: capgate.dev/protocol: another Service announces web with another protocol"
	if text := strings.Join(r.Warnings(), "\n"); !strings.Contains(text, want) {
		t.Error(text)
	}
}
