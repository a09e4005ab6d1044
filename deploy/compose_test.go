package deploy

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v4"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/clienttest"
	"github.com/capgate/capgate/internal/testkit/dnstest"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	"github.com/capgate/capgate/internal/testkit/redistest"
	docpb "github.com/capgate/capgate/proto/selu/capability"
)

// The compose file is what the compose specification describes, what it names is there,
// and gateways have time to drain.
func TestCompose(t *testing.T) {
	t.Parallel()
	file, services := checkCompose(t, "compose/compose.yaml")
	if grace := field(services["gateway"], "stop_grace_period"); grace != "30s" { // the defaults of drain: 5s and 20s
		t.Errorf("stop_grace_period: %v", grace)
	}
	checkComposed(t, services)
	for _, fault := range networkFaults(file) {
		t.Error(fault)
	}
	redis := fmt.Sprint(list(field(services["redis"], "command")))
	if mounts := list(field(services["redis"], "volumes")); !strings.Contains(redis, "--dir /data ") ||
		!strings.Contains(redis, "--appendonly yes") || !slices.Contains(mounts, "redis:/data") {
		t.Errorf("Redis loses its data when its container is replaced: %s, %v", redis, mounts)
	}
	command(t, "haproxy", "-c", "-f", "compose/haproxy.cfg")
}

// networkFaults says who reaches the admin API or the store that should not: each service is in the networks that it
// needs, and in no other, and the admin API listens in one of them alone. A service without networks is in the default
// one, which is that of the admin API.
func networkFaults(file any) (faults []string) {
	want := map[string]string{"gateway": "capabilities default store", "weather": "capabilities", "redis": "store",
		"haproxy": "default", "prometheus": "default", "grafana": "default"}
	services := asMap(field(file, "services"))
	for name, service := range services {
		networks := list(field(service, "networks"))
		if named, is := field(service, "networks").(map[string]any); is {
			networks = slices.Collect(maps.Keys(named))
		}
		if field(service, "networks") == nil {
			networks = []string{"default"}
		}
		slices.Sort(networks)
		if got := strings.Join(networks, " "); got != want[name] {
			faults = append(faults, fmt.Sprintf("%s is in the networks %q, want %q", name, got, want[name]))
		}
	}
	all, _ := field(file, "networks", "default", "ipam", "config").([]any)
	if len(all) != 1 {
		return append(faults, fmt.Sprintf("the default network has %d subnets", len(all)))
	}
	subnet, err := netip.ParsePrefix(fmt.Sprint(field(all[0], "subnet")))
	if admin := flagOf(services["gateway"], "--admin"); err != nil || admin != subnet.String()+":8081" {
		faults = append(faults, fmt.Sprintf("the admin API listens at %q, and its network is at %v (%v)", admin, subnet,
			err))
	}
	return faults
}

// TestComposeNetworksAreChecked: an edit of the compose file that lets others reach the admin API or the store is
// noticed.
func TestComposeNetworksAreChecked(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("compose/compose.yaml")
	check.Must(t, err)
	for _, edit := range [][2]string{
		{`"172.28.5.0/24:8081"`, `":8081"`},
		{`"172.28.5.0/24:8081"`, `"0.0.0.0/0:8081"`},
		{`, --admin, "172.28.5.0/24:8081"`, ""},
		{"{subnet: 172.28.5.0/24}", "{subnet: 172.28.0.0/16}"},
		{" {ipam: {config: [{subnet: 172.28.5.0/24}]}}", " {}"},
		{"networks: [capabilities]", "networks: [capabilities, default]"},
		{"networks: [capabilities]", "networks: [capabilities, store]"},
		{"    networks: [capabilities]\n", ""},
		{"networks: [store]", "networks: [store, capabilities]"},
		{"    networks: [store]\n", ""},
		{"    depends_on: [prometheus]\n", "    networks: [default, store]\n"},
	} {
		var file any
		check.Must(t, yaml.Unmarshal([]byte(replace(t, string(text), edit[0], edit[1])), &file))
		if len(networkFaults(file)) == 0 {
			t.Errorf("nothing notices that %q has become %q", edit[0], edit[1])
		}
	}
}

// flagOf returns the value of a flag in a service's command; "": it has none.
func flagOf(service any, flag string) string {
	command := list(field(service, "command"))
	if i := slices.Index(command, flag); i >= 0 && i+1 < len(command) {
		return command[i+1]
	}
	return ""
}

// checkCompose checks that a compose file is what its specification describes, and that what it names is there.
func checkCompose(t *testing.T, name string) (file any, services map[string]any) {
	t.Helper()
	text, err := os.ReadFile(name)
	check.Must(t, err)
	check.Must(t, yaml.Unmarshal(text, &file))
	asJSON, err := json.Marshal(file)
	check.Must(t, err)
	instance, err := jsonschema.UnmarshalJSON(bytes.NewReader(asJSON))
	check.Must(t, err)
	schema, err := jsonschema.NewCompiler().Compile("schemas/compose.json")
	check.Must(t, err)
	if err := schema.Validate(instance); err != nil {
		t.Error(err)
	}
	volumes := asMap(field(file, "volumes"))
	services = asMap(field(file, "services"))
	dir := filepath.Dir(name)
	for name, service := range services {
		for _, mount := range list(field(service, "volumes")) {
			from, _, _ := strings.Cut(mount, ":")
			if _, named := volumes[from]; named {
				continue
			}
			if _, err := os.Stat(filepath.Join(dir, from)); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		for _, other := range list(field(service, "depends_on")) {
			if services[other] == nil {
				t.Errorf("%s depends on %s, which there is not", name, other)
			}
		}
		if context, ok := field(service, "build", "context").(string); ok {
			docker, _ := field(service, "build", "dockerfile").(string)
			if _, err := os.Stat(filepath.Join(dir, context, cmp.Or(docker, "Dockerfile"))); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	return file, services
}

// checkComposed checks the gateways' configuration, and that capabilities share no network with Redis.
func checkComposed(t *testing.T, services map[string]any) {
	t.Helper()
	secret := filepath.Join(t.TempDir(), "password")
	check.Must(t, os.WriteFile(secret, []byte("hunter2\n"), 0o600))
	text, err := os.ReadFile("compose/config/capgate.yaml")
	check.Must(t, err)
	config := filepath.Join(t.TempDir(), "capgate.yaml")
	check.Must(t, os.WriteFile(config, []byte(replace(t, string(text), "/run/secrets/redis_password", secret)), 0o600))
	command(t, capgate, "check", "--config", config)
	if got := list(field(services["weather"], "networks")); len(got) != 1 || got[0] != "capabilities" {
		t.Errorf("the capability is in the networks %v", got)
	}
	if got := list(field(services["redis"], "networks")); len(got) != 1 || got[0] != "store" {
		t.Errorf("Redis is in the networks %v", got)
	}
}

func list(v any) (all []string) {
	values, _ := v.([]any)
	for _, value := range values {
		all = append(all, fmt.Sprint(value))
	}
	return all
}

// replace puts something else in, which must be there.
func replace(t *testing.T, text string, pairs ...string) string {
	t.Helper()
	for i := 0; i < len(pairs); i += 2 {
		if !strings.Contains(text, pairs[i]) {
			t.Fatalf("there is no %q", pairs[i])
		}
		text = strings.ReplaceAll(text, pairs[i], pairs[i+1])
	}
	return text
}

// The ports of the gateways, and of haproxy: not those that a gateway has unless it is told otherwise, or one that
// listens at all addresses of this machine would be in the way; nor those that the kernel gives to who asks for any.
const (
	publicPort = ":20201"
	adminPort  = ":20202"
)

// fleet is three gateways behind haproxy, as compose runs them.
type fleet struct {
	host     func(n int) string // addresses that nobody else has
	file     string             // configuration of the gateways
	gateways []*process
	failed   atomic.Int64

	capability *gatewaytest.Capability
	stopLoad   func()
}

// A real haproxy with the configuration that is deployed finds three real gateways,
// spreads calls over them, tells them who calls, and loses no call when one is replaced.
func TestHaproxy(t *testing.T) {
	t.Parallel()
	network := fmt.Sprintf("127.%d.%d.", 1+rand.IntN(254), rand.IntN(256))
	f := &fleet{host: func(n int) string { return fmt.Sprint(network, n) }}
	f.startGateways(t)
	f.startHaproxy(t)
	client := f.dial(t)
	check.Succeeds(t, "a call", func() error { return invoke(t.Context(), client) })
	f.load(t)
	f.served(t)

	resp, err := clienttest.HTTP.Post("http://"+f.host(9)+publicPort+"/v1/capabilities/weather/invoke",
		"application/json",
		strings.NewReader(`{"tool_name":"echo","args":{"a":1}}`))
	check.Must(t, err)
	defer resp.Body.Close()
	if body, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode != http.StatusOK ||
		!strings.Contains(string(body), `{"a":1}`) {
		t.Errorf("JSON over HTTP/1.1: %s %s %v", resp.Status, body, err)
	}

	check.Must(t, f.gateways[0].cmd.Process.Signal(syscall.SIGTERM))
	check.Received(t, f.gateways[0].exited, "the end of a gateway")
	f.gateways[0] = f.startGateway(t, 0)
	f.served(t)
	if n := f.failed.Load(); n > 0 {
		t.Errorf("%d calls failed", n)
	}
	for _, g := range f.gateways {
		g.wait(t, `"client":"`+f.host(77)+`"`)
	}
	f.stopLoad()
	f.runsOnce(t)
}

// runsOnce kills gateways while calls run: no client gets told that its call did not run, so none runs twice.
func (f *fleet) runsOnce(t *testing.T) {
	t.Helper()
	before := len(f.capability.Seen())
	var running sync.WaitGroup
	const calls = 9
	for i := range calls {
		client := f.dial(t)
		running.Go(func() {
			_, _ = client.Invoke(t.Context(), &docpb.InvokeRequest{CapabilityId: "weather", ToolName: gatewaytest.Block,
				ArgsJson: fmt.Appendf(nil, `{"call":%d}`, i)}) // those of the last gateway succeed
		})
	}
	for range calls {
		check.Received(t, f.capability.Blocked(), "a call at the capability")
	}
	for _, g := range f.gateways[:2] {
		check.Must(t, g.cmd.Process.Kill())
		check.Received(t, g.exited, "the end of a gateway")
	}
	f.capability.Release()
	check.Ended(t, &running, "the calls to end")
	runs := map[string]int{}
	for _, s := range f.capability.Seen()[before:] {
		if s.Request.GetToolName() == gatewaytest.Block {
			runs[string(s.Request.GetArgsJson())]++
		}
	}
	for args, n := range runs {
		if n != 1 {
			t.Errorf("the call %s ran %d times", args, n)
		}
	}
	if len(runs) != calls {
		t.Errorf("%d of %d calls ran", len(runs), calls)
	}
}

func (f *fleet) startGateways(t *testing.T) {
	t.Helper()
	text, err := os.ReadFile("compose/config/capgate.yaml")
	check.Must(t, err)
	f.capability = gatewaytest.NewCapability("weather")
	backend := f.capability.Serve(t, call.Doc).Addr
	config := replace(t, string(text), `"redis://capgate@redis:6379", password_file: /run/secrets/redis_password`,
		`"`+redistest.Start(t).URL()+`"`, "dns:///weather:50051", backend, "172.16.0.0/12, 192.168.0.0/16",
		"127.0.0.1/32")
	f.file = filepath.Join(t.TempDir(), "capgate.yaml")
	check.Must(t, os.WriteFile(f.file, []byte(config), 0o600))
	for i := range 3 {
		f.gateways = append(f.gateways, f.startGateway(t, i))
	}
}

func (f *fleet) startGateway(t *testing.T, i int) *process {
	t.Helper()
	p := start(t, capgate, "serve", "--config", f.file, "--listen", f.host(i+1)+publicPort, "--admin",
		f.host(i+1)+adminPort)
	p.wait(t, `"msg":"serving"`)
	return p
}

func (f *fleet) startHaproxy(t *testing.T) {
	t.Helper()
	dns := dnstest.Start(t)
	dns.Set("gateways.", f.host(1), f.host(2), f.host(3))
	text, err := os.ReadFile("compose/haproxy.cfg")
	check.Must(t, err)
	file := filepath.Join(t.TempDir(), "haproxy.cfg")
	check.Must(t, os.WriteFile(file, []byte(replace(t, string(text), "127.0.0.11:53", dns.Addr, "bind :8080",
		"bind "+f.host(9)+publicPort,
		"gateways:8080", "gateways"+publicPort, "check port 8081", "check port "+adminPort[1:])), 0o600))
	start(t, "haproxy", "-db", "-f", file)
}

// dial returns a client with an address of its own.
func (f *fleet) dial(t *testing.T) docpb.CapabilityClient {
	t.Helper()
	conn, client := f.connect(t)
	t.Cleanup(func() { _ = conn.Close() })
	return client
}

// connect is dial with the connection, which the caller closes.
func (f *fleet) connect(t *testing.T) (*grpc.ClientConn, docpb.CapabilityClient) {
	t.Helper()
	conn, err := clienttest.NewConn("passthrough:///"+f.host(9)+publicPort,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) {
			d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(f.host(77))}}
			return d.DialContext(ctx, "tcp", addr)
		}))
	check.Must(t, err)
	return conn, docpb.NewCapabilityClient(conn)
}

func invoke(ctx context.Context, client docpb.CapabilityClient) error {
	_, err := client.Invoke(ctx, &docpb.InvokeRequest{CapabilityId: "weather", ToolName: gatewaytest.Echo,
		ArgsJson: []byte("{}")})
	return err
}

// load calls until the test ends. As haproxy passes connections on, new ones reach each gateway.
func (f *fleet) load(t *testing.T) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	f.stopLoad = func() { stop(); check.Ended(t, &running, "the background work to end") }
	t.Cleanup(f.stopLoad)
	for range 4 {
		running.Go(func() {
			conn, client := f.connect(t)
			defer func() { _ = conn.Close() }()
			for pace := time.NewTicker(5 * time.Millisecond); ctx.Err() == nil; <-pace.C {
				if err := invoke(ctx, client); err != nil && ctx.Err() == nil && f.failed.Add(1) == 1 {
					t.Logf("the first call that failed: %v", err)
				}
				if rand.IntN(20) == 0 {
					_ = conn.Close()
					conn, client = f.connect(t)
				}
			}
		})
	}
}

// served waits until every gateway has had a call.
func (f *fleet) served(t *testing.T) {
	t.Helper()
	for _, g := range f.gateways {
		g.wait(t, `"msg":"call"`)
	}
}
