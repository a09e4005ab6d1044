package cli

import (
	"fmt"
	"net"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/kubetest"
)

// pod is a backend process and its EndpointSlice. It has a slice of its own, as the pods of a test differ in ports.
type pod struct {
	api     *kubetest.Server
	name    string
	addr    string
	process *program
}

// startPod starts a backend that is not an endpoint yet.
func startPod(t *testing.T, api *kubetest.Server, name string) *pod {
	t.Helper()
	p := &pod{api: api, name: name, addr: check.ClosedPort(t)}
	p.put(t, kubetest.Starting)
	p.process = startBackend(t, p.addr)
	return p
}

// put writes the slice of the pod.
func (p *pod) put(t *testing.T, state kubetest.Condition) {
	t.Helper()
	host, text, err := net.SplitHostPort(p.addr)
	check.Must(t, err)
	port, err := strconv.Atoi(text)
	check.Must(t, err)
	p.api.Put(kubetest.EndpointSlices, "tools", "caps-"+p.name, kubetest.Slice("caps", port,
		kubetest.Endpoint{Addr: host, Pod: p.name, State: state}))
}

// kubernetesConfig returns a configuration whose fleet has the backends of a Service.
func kubernetesConfig(t *testing.T, api *kubetest.Server) string {
	t.Helper()
	text := configOf(fmt.Sprintf("registration: {allow: [127.0.0.0/8]}\nkubernetes: {api: {address: '%s', "+
		"ca_file: %s, token_file: %s}}\n", api.URL, api.CAFile, api.TokenFile), "x:1")
	return writeConfig(t, strings.Replace(text, patientProbes+", backends: ['x:1']",
		"health: {interval: 20s, timeout: 20s}, kubernetes: {namespace: tools, service: caps}", 1))
}

// TestRollingUpdate: while a Deployment replaces its pods, no call fails, and each former pod ends by itself.
func TestRollingUpdate(t *testing.T) {
	t.Parallel()
	api := kubetest.Start(t)
	var pods []*pod
	for i := range 3 {
		p := startPod(t, api, fmt.Sprint("old-", i))
		p.put(t, kubetest.Ready)
		pods = append(pods, p)
	}
	gateway, public, admin := serve(t, nil, "--config", kubernetesConfig(t, api))
	waitBackends(t, admin, 3)
	waitPage(t, "http://"+admin+"/v1/fleets", `"source":"kubernetes"`)
	calls := startLoad(t, 4, dial(t, public))
	for i, former := range pods {
		calls.during(t, fmt.Sprint("pod ", i), func() {
			next := startPod(t, api, fmt.Sprint("new-", i))
			next.put(t, kubetest.Ready)
			waitBackends(t, admin, 4)
			former.put(t, kubetest.Leaving) // the kubelet does not wait until clients know
			former.process.signal(t, syscall.SIGTERM)
			if exit := former.process.wait(t); exit != 0 {
				t.Errorf("the pod ended with %d", exit)
			}
			former.put(t, kubetest.Gone)
			waitBackends(t, admin, 3)
			api.Delete(kubetest.EndpointSlices, "tools", "caps-"+former.name)
		})
	}
	calls.end()
	gateway.stop(t)
}

// TestKubernetesAway: while the API server is away, backends stay and operators see it; a role without a verb has an
// error that says what to do.
func TestKubernetesAway(t *testing.T) {
	t.Parallel()
	api := kubetest.Start(t)
	one := startPod(t, api, "one")
	one.put(t, kubetest.Ready)
	gateway, public, admin := serve(t, nil, "--config", kubernetesConfig(t, api))
	waitBackends(t, admin, 1)
	const stale = `capgate_kubernetes_stale_seconds{namespace="tools",resource="endpointslices.discovery.k8s.io"}`
	waitMetric(t, "http://"+admin+"/metrics", stale, func(n float64) bool { return n == 0 })
	calls := startLoad(t, 2, dial(t, public))
	two := startPod(t, api, "two")
	calls.during(t, "the API server is away", func() {
		api.Away(true)
		two.put(t, kubetest.Ready)
		api.Expire(kubetest.AsStatus)
		waitMetric(t, "http://"+admin+"/metrics", stale, func(n float64) bool { return n > 0.5 })
		waitPage(t, "http://"+admin+"/readyz", "endpointslices.discovery.k8s.io in namespace tools cannot be followed")
		waitBackends(t, admin, 1)
	})
	calls.during(t, "the API server is back", func() {
		api.Away(false)
		waitBackends(t, admin, 2)
		waitMetric(t, "http://"+admin+"/metrics", stale, func(n float64) bool { return n == 0 })
	})
	api.Deny("watch", kubetest.EndpointSlices, true)
	waitPage(t, "http://"+admin+"/readyz", "give the service account a role with the verbs list and watch for it")
	calls.end()
	gateway.stop(t)
}

// TestAnnouncedCapability: a Service with an annotation makes a capability of its pods, with the policy of the
// configuration, and ends it when the Service is deleted.
func TestAnnouncedCapability(t *testing.T) {
	t.Parallel()
	api := kubetest.Start(t)
	one := startPod(t, api, "one")
	one.put(t, kubetest.Ready)
	text := strings.Replace(configOf(fmt.Sprintf("registration: {allow: [127.0.0.0/8]}\nkubernetes: {api: {address: "+
		"'%s', ca_file: %s, token_file: %s}, watch: {namespaces: [tools], policy: allow}}\n", api.URL, api.CAFile,
		api.TokenFile), "127.0.0.1:1"), "capability: caps", "capability: other", 1)
	gateway, public, admin := serve(t, nil, "--config", writeConfig(t, text))
	api.Put(kubetest.Services, "tools", "caps", kubetest.Service(nil, "capgate.dev/capability=caps"))
	waitBackends(t, admin, 1)
	calls := startLoad(t, 2, dial(t, public))
	calls.more(t, 20)
	calls.end()
	api.Delete(kubetest.Services, "tools", "caps")
	check.Until(t, "no fleet", func() (bool, string) {
		_, body := page(t, "http://"+admin+"/readyz?verbose")
		return !strings.Contains(body, `"capability":"caps"`), body
	})
	gateway.stop(t)
}
