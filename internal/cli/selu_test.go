package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"

	"github.com/capgate/capgate/examples/selu"
	"github.com/capgate/capgate/examples/weather"
	"github.com/capgate/capgate/gateway/status"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/testkit/certtest"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	docpb "github.com/capgate/capgate/proto/selu/capability"
)

// seluRig is an operator's Selu setup: gateways with TLS and a tenant, capabilities, and the images of
// forward.
type seluRig struct {
	dir, ca, key string
	text         string   // of the configuration
	args         []string // of forward
}

// newSeluRig creates certificates for a host, a key, and a configuration with fleets, the text of a list.
func newSeluRig(t *testing.T, host, more, fleets string) *seluRig {
	t.Helper()
	w := &seluRig{dir: t.TempDir()}
	authority := certtest.New(t)
	cert, secret := certtest.PEMOf(t, authority.Server(t, net.ParseIP(host)))
	key, entry := makeKey(t)
	w.key = key
	w.ca = w.file(t, "ca.pem", authority.PEM)
	w.text = fmt.Sprintf("listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\ndrain: {delay: 0s, timeout: 20s}\n"+
		"tls: {cert_file: %s, key_file: %s}\ntenants: [{id: selu, capabilities: ['*'], keys: [%s]}]\n%s\nfleets:\n%s",
		w.file(t, "cert.pem", cert), w.file(t, "key.pem", secret), entry, more, fleets)
	return w
}

func (w *seluRig) file(t *testing.T, name, text string) string {
	t.Helper()
	file := filepath.Join(w.dir, name)
	check.Must(t, os.WriteFile(file, []byte(text), 0o600))
	return file
}

// env returns the environment of a container: that of the image and that of Selu.
func (w *seluRig) env(url, capability string) []string {
	return []string{"CAPGATE_URL=" + url, "CAPGATE_KEY_FILE=" + filepath.Join(w.dir, "key"), "CAPGATE_CA_FILE=" + w.ca,
		"CAPGATE_LISTEN=127.0.0.1:0", "SELU_CAPABILITY_ID=" + capability}
}

// container starts forward as the container of a capability, and returns the orchestrator's channel to it.
func (w *seluRig) container(t *testing.T, url, capability string, env ...string) (*program, *selu.Client) {
	t.Helper()
	w.file(t, "key", w.key)
	p := start(t, append(w.env(url, capability), env...), append([]string{"forward"}, w.args...)...)
	return p, dialSelu(t, capability, attribute(p.stderr.wait(t, p, `"msg":"serving"`), "listen"))
}

// dialSelu returns the orchestrator's channel to a container.
func dialSelu(t *testing.T, capability, addr string) *selu.Client {
	t.Helper()
	host, port, err := net.SplitHostPort(addr)
	check.Must(t, err)
	number, err := strconv.Atoi(port)
	check.Must(t, err)
	client, err := selu.Dial(selu.Container{Capability: capability, Host: host, Port: number})
	check.Must(t, err)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// waitReady waits until a capability is ready. On a busy machine that may take longer than the orchestrator
// waits.
func waitReady(t *testing.T, c *selu.Client) {
	t.Helper()
	var err error
	for range 10 {
		if err = c.WaitReady(t.Context()); err == nil {
			return
		}
	}
	t.Fatal(err)
}

// serveWeather runs the demonstration capability, and returns its address.
func serveWeather(t *testing.T) string {
	t.Helper()
	capability, err := weather.New(weather.Config{MaxArtifacts: 1 << 16})
	check.Must(t, err)
	return gatewaytest.Serve(t, func(s *grpc.Server) { docpb.RegisterCapabilityServer(s, capability) }).Addr
}

// useWeather calls all five methods of the demonstration capability, and checks the responses.
func useWeather(ctx context.Context, c *selu.Client) error {
	current, err := c.Invoke(ctx, selu.Call{Tool: "get_current_weather", Args: `{"location":"Berlin"}`})
	if err != nil || !strings.Contains(string(current), "Germany") {
		return fmt.Errorf("get_current_weather: %s %w", current, err)
	}
	days := 0
	if err := c.StreamInvoke(ctx, selu.Call{Tool: "get_forecast", Args: `{"location":"Lima","days":3}`},
		func([]byte) { days++ }); err != nil || days != 3 {
		return fmt.Errorf("get_forecast: %d days, %w", days, err)
	}
	id, err := c.Upload(ctx, selu.File{Name: "cities.txt", MIME: "text/plain", Data: []byte("Oslo\nPerth\n")})
	if err != nil {
		return fmt.Errorf("upload: %w", err)
	}
	var report []byte
	if err := onceKnown(func() error {
		report, err = c.Invoke(ctx, selu.Call{Tool: "export_report",
			Args: `{"days":1,"attachments":[{"capability_artifact_id":"` + id + `"}]}`})
		return err
	}); err != nil {
		return fmt.Errorf("export_report: %w", err)
	}
	var result struct {
		Artifact struct {
			ID string `json:"capability_artifact_id"`
		} `json:"artifact"`
	}
	if err := json.Unmarshal(report, &result); err != nil {
		return fmt.Errorf("export_report: %s %w", report, err)
	}
	var file selu.File
	if err := onceKnown(func() error {
		file, err = c.Download(ctx, result.Artifact.ID)
		return err
	}); err != nil || !strings.Contains(string(file.Data), "Perth") {
		return fmt.Errorf("download: %s %w", file.Data, err)
	}
	return nil
}

// onceKnown repeats what names a recent file, as the documentation advises, while the replica of the upload has not
// stored its id in Redis.
func onceKnown(do func() error) error {
	for end := time.Now().Add(check.Patience); ; {
		err := do()
		if status.InfoOf(err).GetReason() != "ARTIFACT_UNKNOWN" || time.Now().After(end) {
			return err
		}
	}
}

// TestSeluForward: the orchestrator uses capabilities through forward and a gateway with tenants and TLS, with
// all five methods and discovery.
func TestSeluForward(t *testing.T) {
	t.Parallel()
	dynamic := gatewaytest.NewCapability("dynamic")
	dynamic.SetLists(func() ([]byte, string, error) {
		return []byte(`[{"name":"echo","description":"d","input_schema":{"type":"object"},` +
			`"recommended_policy":"allow"}]`), "", nil
	})
	w := newSeluRig(t, "127.0.0.1", "", fmt.Sprintf("  - {capability: weather, policy: allow, backends: ['%s']}\n"+
		"  - {capability: dynamic, policy: allow, backends: ['%s']}\n", serveWeather(t),
		dynamic.Serve(t, call.Live).Addr))
	_, public, _ := serve(t, nil, "--config", writeConfig(t, w.text))
	container, client := w.container(t, "https://"+public, "weather")
	waitReady(t, client)
	check.Must(t, useWeather(t.Context(), client))

	_, other := w.container(t, "https://"+public, "dynamic", "SELU_SESSION_ID=s-1")
	waitReady(t, other)
	tools, err := other.Discover(t.Context(), "")
	if err != nil || len(tools) != 1 || tools[0].Name != "echo" {
		t.Errorf("tools: %v %v", tools, err)
	}
	wrong := dialSelu(t, "dynamic", attribute(container.stderr.String(), "listen"))
	if _, err := wrong.Invoke(t.Context(), selu.Call{Tool: gatewaytest.Echo}); !strings.Contains(
		status.InfoOf(err).GetReason(), "ROUTING_KEY_CONFLICT") {
		t.Errorf("a call that names another capability than its container: %v", err)
	}
	large := fmt.Sprintf(`{"text":"%s"}`, strings.Repeat("x", 15<<20))
	got, err := other.Invoke(t.Context(), selu.Call{Tool: gatewaytest.Echo, Args: large})
	for range 20 { // a busy machine may miss the timeout of a first message
		if grpcstatus.Code(err) != codes.DeadlineExceeded {
			break
		}
		got, err = other.Invoke(t.Context(), selu.Call{Tool: gatewaytest.Echo, Args: large})
	}
	if err != nil || string(got) != large {
		t.Errorf("a call of 15 MiB: %d bytes, %v", len(got), err)
	}
	if client.Repeated()+other.Repeated() != 0 {
		t.Error("calls were repeated")
	}
	container.stop(t)
}

// TestSeluListener: the orchestrator uses a capability at a listener of the gateway, without a key and without
// forward.
func TestSeluListener(t *testing.T) {
	t.Parallel()
	w := newSeluRig(t, "127.0.0.1", "listeners: [{address: '127.0.0.1:0', capability: weather, tenant: selu, "+
		"scopes: [invoke], dialect: live}]", fmt.Sprintf("  - {capability: weather, policy: allow, backends: ['%s']}\n",
		serveWeather(t)))
	p, _, _ := serve(t, nil, "--config", writeConfig(t, w.text))
	client := dialSelu(t, "weather", addressesOf(t, p)[0])
	waitReady(t, client)
	check.Must(t, useWeather(t.Context(), client))
}

// TestSeluApproval: a call that requires approval waits for the fleet's approval_wait and runs when it is
// approved; the orchestrator sees nothing of that.
func TestSeluApproval(t *testing.T) {
	t.Parallel()
	w := newSeluRig(t, "127.0.0.1", "", fmt.Sprintf("  - {capability: weather, policy: ask, approval_wait: 90s, "+
		"backends: ['%s']}\n", serveWeather(t)))
	_, public, admin := serve(t, nil, "--config", writeConfig(t, w.text))
	_, client := w.container(t, "https://"+public, "weather")
	called := make(chan error, 1)
	go func() {
		result, err := client.Invoke(t.Context(), selu.Call{Tool: "get_current_weather", Args: `{"location":"Berlin"}`})
		if err == nil && !strings.Contains(string(result), "Germany") {
			err = fmt.Errorf("the result is %s", result)
		}
		called <- err
	}()
	pending := waitPage(t, "http://"+admin+"/v1/approvals?tenant=selu", `"apr_`)
	id := regexp.MustCompile(`apr_[A-Z0-9]+`).FindString(pending)
	if exit, _, stderr := capgateRun(t, "approvals", "approve", id, "--tenant", "selu", "--admin", admin); exit != 0 {
		t.Fatal(stderr)
	}
	if err := check.Received(t, called, "the end of the call"); err != nil || client.Repeated() != 0 {
		t.Errorf("%v, and %d repetitions", err, client.Repeated())
	}
}

// TestSeluErrors: how an operator's mistakes and a policy appear to the orchestrator. The table of
// docs/systems/selu.md has each text. The orchestrator repeats a call only if it did not start.
func TestSeluErrors(t *testing.T) {
	t.Parallel()
	w := newSeluRig(t, "127.0.0.1", "", fmt.Sprintf("  - {capability: weather, backends: ['%s']}\n"+
		"  - {capability: people, policy: ask, backends: ['%[1]s']}\n"+
		"  - {capability: gone, policy: allow, backends: ['%s']}\n", serveWeather(t), check.ClosedPort(t)))
	_, public, _ := serve(t, nil, "--config", writeConfig(t, w.text))
	w.args = []string{"--wait", "300ms"}
	gateway, table := "https://"+public, read(t, "docs/systems/selu.md")
	const unreached = "Unavailable: cannot connect to the gateway; the call was not started"
	for name, test := range map[string]struct {
		capability, url string
		change          func(*seluRig) // nil means nothing
		want            string         // a part of the error
		repeated        int
	}{
		"a key": {"weather", gateway, func(w *seluRig) { w.key = "cg_aaaaaaaaaaaaaaaa_" + strings.Repeat("b", 32) },
			"Unauthenticated: the API key is unknown, revoked or wrong", 0},
		"a capability": {"weathr", gateway, nil, `NotFound: no capability "weathr" is configured`, 0},
		"no policy": {"weather", gateway, nil, "PermissionDenied: no rule, manifest or policy of the fleet " +
			"allows this tool", 0},
		"an approval": {"people", gateway, nil,
			"FailedPrecondition: this tool may only run after a person has approved the call", 0},
		"a backend": {"gone", gateway, nil, "Unavailable: no healthy backend for capability gone", 0},
		"a gateway": {"weather", "https://" + check.ClosedPort(t), nil, unreached, 1},
		"a certificate": {"weather", gateway, func(w *seluRig) { w.ca = w.file(t, "ca.pem", certtest.New(t).PEM) },
			unreached, 1},
	} {
		t.Run(name, func(t *testing.T) {
			own := *w
			own.dir = t.TempDir()
			if test.change != nil {
				test.change(&own)
			}
			_, client := own.container(t, test.url, test.capability)
			_, err := client.Invoke(t.Context(), selu.Call{Tool: "get_current_weather", Args: `{"location":"Berlin"}`})
			got := grpcstatus.Code(err).String() + ": " + grpcstatus.Convert(err).Message()
			if !strings.HasPrefix(got, test.want) || client.Repeated() != test.repeated {
				t.Errorf("got %s, and %d repetitions; want %s, and %d", got, client.Repeated(), test.want,
					test.repeated)
			}
			_, said, _ := strings.Cut(test.want, ": ")
			if !strings.Contains(table, strings.ReplaceAll(said, "weathr", "weathr")) {
				t.Errorf("docs/systems/selu.md does not show %q", said)
			}
		})
	}
}
