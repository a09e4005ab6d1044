package cli

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/kubereal"
	"github.com/capgate/capgate/internal/testkit/kubetest"
	"github.com/capgate/capgate/internal/testkit/redistest"
)

// deployment has pods with addresses of their own, and one slice for all.
type deployment struct {
	t         *testing.T // until whose end the pods run
	api       *kubereal.Cluster
	service   string
	endpoints []kubetest.Endpoint
	pods      map[string]*program // by address
}

// podPort is the port of all pods.
const podPort = 50051

// addr returns the address of a pod. In the network of these tests, all of 10.64.0.0/10 are local.
func (d *deployment) addr(n int) string { return fmt.Sprintf("10.64.1.%d", n) }

// set changes an endpoint, and writes the slice.
func (d *deployment) set(addr string, state kubetest.Condition) {
	for i := range d.endpoints {
		if d.endpoints[i].Addr == addr {
			d.endpoints[i].State = state
		}
	}
	d.write()
}

func (d *deployment) write() {
	d.api.Put(kubetest.EndpointSlices, "tools", d.service+"-1", kubetest.Slice(d.service, podPort, d.endpoints...))
}

// scaleUp starts a pod that becomes ready.
func (d *deployment) scaleUp(t *testing.T, n int) {
	t.Helper()
	addr := d.addr(n)
	d.endpoints = append(d.endpoints, kubetest.Endpoint{Addr: addr, Pod: fmt.Sprint("pod-", n),
		State: kubetest.Starting})
	d.write()
	d.pods[addr] = startBackend(d.t, net.JoinHostPort(addr, strconv.Itoa(podPort)))
	d.set(addr, kubetest.Ready)
}

// scaleDown ends a pod. Its calls finish.
func (d *deployment) scaleDown(t *testing.T, n int, gone func()) {
	t.Helper()
	addr := d.addr(n)
	d.set(addr, kubetest.Leaving) // the kubelet does not wait until clients know
	d.pods[addr].signal(t, syscall.SIGTERM)
	if exit := d.pods[addr].wait(t); exit != 0 {
		t.Errorf("the pod ended with %d", exit)
	}
	d.set(addr, kubetest.Gone)
	gone()
	for i := range d.endpoints {
		if d.endpoints[i].Addr == addr {
			d.endpoints = append(d.endpoints[:i], d.endpoints[i+1:]...)
			break
		}
	}
	d.write()
}

// serverConfig returns a configuration with a fleet of endpoints, and the files of a service account.
func serverConfig(t *testing.T, addr string, account *kubereal.Account, source string) string {
	t.Helper()
	text := configOf(fmt.Sprintf("kubernetes: {api: {address: 'https://%s', ca_file: %s, token_file: %s}}\n", addr,
		account.CAFile(), account.TokenFile()), "x:1")
	return writeConfig(t, strings.Replace(text, patientProbes+", backends: ['x:1']",
		"health: {interval: 20s, timeout: 20s}, kubernetes: {namespace: tools, "+source+"}", 1))
}

// sliceMetric returns the name of a metric of the slices in the namespace tools.
func sliceMetric(name string) string {
	return "capgate_kubernetes_" + name + `{namespace="tools",resource="endpointslices.discovery.k8s.io"}`
}

// TestAPIServer: the program follows a real API server through its faults, and no call fails.
func TestAPIServer(t *testing.T) {
	api := kubereal.Start(t)
	api.Namespace(t, "tools")
	api.CreateAccount(t, "default", "capgate")
	account := api.Mount(t, t.TempDir(), "default", "capgate")
	network := redistest.NewProxy(t, "tcp", api.Addr)
	gateway, public, admin := serve(t, nil, "--config", serverConfig(t, network.Addr, account, "service: caps"))
	metrics := "http://" + admin + "/metrics"
	d := &deployment{t: t, api: api, service: "caps", pods: map[string]*program{}}
	for n := range 3 {
		d.scaleUp(t, n)
	}
	known := func(n int) { t.Helper(); waitBackends(t, admin, n) }
	waitPage(t, "http://"+admin+"/readyz", "endpointslices.discovery.k8s.io is forbidden")
	waitPage(t, "http://"+admin+"/readyz", "give the service account a role with the verbs list and watch for it")
	waitMetric(t, metrics, sliceMetric("stale_seconds"), func(n float64) bool { return n > 0 })
	waitMetric(t, metrics, sliceMetric("failures_total"), func(n float64) bool { return n > 0 })
	api.ApplyFile(t, "../../deploy/kustomize/overlays/kubernetes/roles.yaml")
	known(3)
	waitMetric(t, metrics, sliceMetric("stale_seconds"), func(n float64) bool { return n == 0 })

	calls := startLoad(t, 4, dial(t, public))
	next := 3 // pod
	replace := func(t *testing.T) {
		t.Helper()
		d.scaleUp(t, next)
		known(4)
		d.scaleDown(t, next-3, func() { known(3) })
		next++
	}
	lists := func() float64 {
		return waitMetric(t, metrics, sliceMetric("lists_total"), func(float64) bool { return true })
	}
	for _, fault := range []struct {
		name string
		when func(t *testing.T)
	}{
		{"RollingUpdate", func(t *testing.T) {
			for range 3 {
				replace(t)
			}
		}},
		{"WatchIsCut", func(t *testing.T) {
			before := lists()
			for range 3 {
				network.Cut()
				replace(t)
			}
			if after := lists(); after != before {
				t.Errorf("%v lists because of 3 cuts", after-before)
			}
		}},
		{"TokenIsReplaced", func(t *testing.T) {
			former, err := os.ReadFile(account.TokenFile())
			check.Must(t, err)
			api.Delete("serviceaccounts", "default", "capgate") // its tokens end
			api.CreateAccount(t, "default", "capgate")
			check.Until(t, "the end of the token", func() (bool, string) { // which the API server caches
				code, _, err := api.Get("/api", string(former))
				return code == http.StatusUnauthorized, fmt.Sprint(code, err)
			})
			network.Cut()
			waitPage(t, "http://"+admin+"/readyz", "401 Unauthorized")
			known(3)
			account.Rotate(t)
			waitMetric(t, metrics, sliceMetric("stale_seconds"), func(n float64) bool { return n == 0 })
			replace(t)
		}},
		{"Restart", func(t *testing.T) {
			api.StopServer()
			waitMetric(t, metrics, sliceMetric("stale_seconds"), func(n float64) bool { return n > 0.5 })
			known(3)
			api.StartServer()
			replace(t)
		}},
		{"VersionHasExpired", func(t *testing.T) {
			before := lists()
			network.BlackHole()
			network.Cut()
			d.scaleUp(t, next)
			api.Compact()
			api.StopServer()
			api.StartServer()
			network.Heal()
			known(4)
			if after := lists(); after <= before {
				t.Error("the objects were not listed again")
			}
			d.scaleDown(t, next-3, func() { known(3) })
			next++
		}},
		{"Slow", func(t *testing.T) {
			network.Delay(time.Second)
			network.Cut()
			replace(t)
			network.Heal()
		}},
		{"Frozen", func(t *testing.T) {
			api.Freeze()
			network.Cut()
			calls.more(t, 200)
			known(3)
			api.Thaw()
			replace(t)
		}},
	} {
		t.Run(fault.name, func(t *testing.T) {
			calls.during(t, fault.name, func() { fault.when(t) })
		})
	}
	calls.end()
	t.Logf("%d calls, %d failed", calls.calls.Load(), calls.failed.Load())
	gateway.stop(t)
	t.Run("Many", func(t *testing.T) { manyEndpoints(t, api, account) })
}

// manyEndpoints: 5,000 endpoints in 50 slices are known soon, in bounded memory, and so is a change of one.
func manyEndpoints(t *testing.T, api *kubereal.Cluster, account *kubereal.Account) {
	const slicesOf, endpointsOf = 50, 100
	slice := func(i, ready int) {
		var all []kubetest.Endpoint
		for j := range ready {
			all = append(all, kubetest.Endpoint{Addr: fmt.Sprintf("10.65.%d.%d", i, j),
				Pod: fmt.Sprint("pod-", i, "-", j), Zone: fmt.Sprint("zone-", j%3)})
		}
		api.Put(kubetest.EndpointSlices, "tools", fmt.Sprint("many-", i), kubetest.WithLabels(
			kubetest.Slice("many", podPort+1, all...), "tier=many"))
	}
	for i := range slicesOf {
		slice(i, endpointsOf)
	}
	startBackend(t, net.JoinHostPort("0.0.0.0", strconv.Itoa(podPort+1))) // all addresses are local
	before := time.Now()
	gateway, _, admin := serve(t, nil, "--config", serverConfig(t, api.Addr, account, "selector: tier=many"))
	serving := time.Since(before)
	metrics := "http://" + admin + "/metrics"
	total := func(n float64) func(float64) bool { return func(got float64) bool { return got == n } }
	waitMetric(t, metrics, "capgate_kubernetes_backends", total(slicesOf*endpointsOf))
	all := time.Since(before)
	before = time.Now()
	slice(7, endpointsOf-1)
	waitMetric(t, metrics, "capgate_kubernetes_backends", total(slicesOf*endpointsOf-1))
	t.Logf("serving after %v, %d endpoints known after %v, a change of one after %v; memory %d MiB", serving,
		slicesOf*endpointsOf, all, time.Since(before), resident(t, gateway)>>20)
	if all > 20*time.Second {
		t.Errorf("%v until all endpoints were known", all)
	}
	if used := resident(t, gateway); used > 512<<20 {
		t.Errorf("%d MiB", used>>20)
	}
	gateway.stop(t)
}

// resident returns the memory of a program in bytes.
func resident(t *testing.T, p *program) int64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	check.Must(t, err)
	_, rest, _ := strings.Cut(string(text), "VmRSS:")
	kib, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
	check.Must(t, err)
	return kib << 10
}
