package deploy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

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

// The ports of the gateways and of haproxy. They differ from the default ports, because a gateway on this machine may
// listen on all addresses. They are below the range from which the kernel assigns ports.
const (
	publicPort  = ":20201"
	adminPort   = ":20202"
	consolePort = ":20203"
	healthyPort = ":20204"
)

// fleet is three gateways behind haproxy, as in the compose file.
type fleet struct {
	host     func(n int) string // returns the loopback address of a gateway
	file     string             // configuration of the gateways
	haproxy  string             // configuration of haproxy; default compose/haproxy.cfg
	flags    []string           // of the gateways
	gateways []*process
	dns      *dnstest.Server // resolves the addresses of the gateways
	failed   atomic.Int64

	capability *gatewaytest.Capability
	stopLoad   func()
}

// newFleet returns a fleet with its own addresses.
func newFleet() *fleet {
	network := fmt.Sprintf("127.%d.%d.", 1+rand.IntN(254), rand.IntN(256))
	return &fleet{host: func(n int) string { return fmt.Sprint(network, n) }}
}

// TestHaproxy: a real haproxy with the deployed configuration finds three real gateways, spreads calls over them,
// passes on the client addresses, and loses no call when all gateways are replaced.
func TestHaproxy(t *testing.T) {
	t.Parallel()
	f := newFleet()
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

	for path, want := range map[string]string{"/livez": "ok", "/": "capgate, operators' port"} {
		if text := f.admin(t, path); !strings.Contains(text, want) {
			t.Errorf("%s of the admin API through haproxy: %s", path, text)
		}
	}
	healthy := func() error {
		return runHealthcheck(t, "haproxy", "127.0.0.1/8404", f.host(9)+"/"+healthyPort[1:])
	}
	check.Succeeds(t, "the health check of haproxy", healthy)

	f.upgrade(t)
	if n := f.failed.Load(); n > 0 {
		t.Errorf("%d calls failed", n)
	}
	for _, g := range f.gateways {
		g.wait(t, `"client":"`+f.host(77)+`"`)
	}
	f.stopLoad()
	f.runsOnce(t)
	check.Must(t, f.gateways[2].cmd.Process.Kill())
	check.Succeeds(t, "haproxy without a gateway to be unhealthy", func() error {
		if healthy() == nil {
			return errors.New("it is healthy")
		}
		return nil
	})
}

// upgrade follows docs/run/upgrade.md for compose: three new gateways join, and then the former ones stop, one after
// the other.
func (f *fleet) upgrade(t *testing.T) {
	t.Helper()
	former := f.gateways
	f.gateways = nil
	for i := range former {
		f.gateways = append(f.gateways, f.startGateway(t, len(former)+i))
	}
	f.dns.Set("gateways.", f.host(1), f.host(2), f.host(3), f.host(4), f.host(5), f.host(6))
	f.served(t)
	for _, g := range former {
		check.Must(t, g.cmd.Process.Signal(syscall.SIGTERM))
		check.Received(t, g.exited, "the end of a gateway")
	}
	f.dns.Set("gateways.", f.host(4), f.host(5), f.host(6))
}

// admin returns a page of the admin API, through haproxy.
func (f *fleet) admin(t *testing.T, path string) string {
	t.Helper()
	resp, err := clienttest.HTTP.Get("http://" + f.host(9) + consolePort + path)
	check.Must(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	check.Must(t, err)
	return string(text)
}

// runsOnce kills gateways while calls run: no call that has run is reported as not run, so none runs twice.
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
		`"`+redistest.Start(t).URL()+`"`, "dns:///weather:50051", backend, "172.28.5.10/32",
		"127.0.0.1/32")
	f.file = filepath.Join(t.TempDir(), "capgate.yaml")
	check.Must(t, os.WriteFile(f.file, []byte(config), 0o600))
	f.startAll(t)
}

// startAll starts three gateways with the configuration.
func (f *fleet) startAll(t *testing.T) {
	t.Helper()
	for i := range 3 {
		f.gateways = append(f.gateways, f.startGateway(t, i))
	}
}

func (f *fleet) startGateway(t *testing.T, i int) *process {
	t.Helper()
	p := start(t, capgate, append([]string{"serve", "--config", f.file, "--listen", f.host(i+1) + publicPort, "--admin",
		f.host(i+1) + adminPort}, f.flags...)...)
	p.wait(t, `"msg":"serving"`)
	return p
}

func (f *fleet) startHaproxy(t *testing.T) {
	t.Helper()
	f.dns = dnstest.Start(t)
	f.dns.Set("gateways.", f.host(1), f.host(2), f.host(3))
	text, err := os.ReadFile(cmp.Or(f.haproxy, "compose/haproxy.cfg"))
	check.Must(t, err)
	file := filepath.Join(t.TempDir(), "haproxy.cfg")
	check.Must(t, os.WriteFile(file, []byte(replace(t, string(text), "127.0.0.11:53", f.dns.Addr, "bind :8080",
		"bind "+f.host(9)+publicPort,
		"gateways:8080", "gateways"+publicPort, "check port 8081", "check port "+adminPort[1:],
		"bind :8081", "bind "+f.host(9)+consolePort, "gateways:8081", "gateways"+adminPort,
		"bind 127.0.0.1:8404", "bind "+f.host(9)+healthyPort)), 0o600))
	start(t, "haproxy", "-db", "-f", file)
}

// dial returns a client with its own address.
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

// load makes calls until the test ends. haproxy distributes connections, so new ones reach each gateway.
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
