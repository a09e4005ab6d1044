package cli

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/clienttest"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	docpb "github.com/capgate/capgate/proto/selu/capability"
)

// configFile writes a configuration file with one capability, "caps".
func configFile(t *testing.T, backend, more string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "capgate.yaml")
	text := fmt.Sprintf("listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\ndrain: {delay: 0s, timeout: 20s}\n%s\nfleets: "+
		"[{capability: caps, policy: allow, backends: [%q]}]\n", more, backend)
	check.Must(t, os.WriteFile(file, []byte(text), 0o600))
	return file
}

// serve starts capgate serve and returns when it listens.
func serve(t *testing.T, env []string, args ...string) (p *program, public, admin string) {
	t.Helper()
	p = start(t, env, append([]string{"serve"}, args...)...)
	text := p.stderr.wait(t, p, `"msg":"serving"`)
	return p, attribute(text, "listen"), attribute(text, "admin")
}

// attribute returns a value in a log of JSON lines.
func attribute(text, key string) string {
	_, rest, _ := strings.Cut(text, `"`+key+`":"`)
	value, _, _ := strings.Cut(rest, `"`)
	return value
}

// dial returns a client of a gateway.
func dial(t *testing.T, addr string) docpb.CapabilityClient {
	t.Helper()
	conn, err := clienttest.NewConn("passthrough:///"+addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	check.Must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return docpb.NewCapabilityClient(conn)
}

func page(t *testing.T, url string) (int, string) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: check.Patience}
	var code int
	var body []byte
	check.Succeeds(t, url, func() error { // the server ends a connection that a busy client does not use in time
		resp, err := client.Get(url)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		code = resp.StatusCode
		body, err = io.ReadAll(resp.Body)
		return err
	})
	return code, string(body)
}

// On SIGTERM, the gateway waits for running calls, is reported as draining at the admin API, and exits with status 0.
func TestServeDrainsOnSIGTERM(t *testing.T) {
	t.Parallel()
	capability := gatewaytest.NewCapability("b1")
	p, public, admin := serve(t, nil, "--config", configFile(t, capability.Serve(t, call.Live).Addr, ""))
	client := dial(t, public)
	if code, body := page(t, "http://"+admin+"/readyz"); code != 200 {
		t.Errorf("/readyz: %d %s", code, body)
	}
	type answer struct {
		resp *docpb.InvokeResponse
		err  error
	}
	answered := make(chan answer, 1)
	go func() {
		resp, err := client.Invoke(context.Background(),
			&docpb.InvokeRequest{CapabilityId: "caps", ToolName: gatewaytest.Block})
		answered <- answer{resp, err}
	}()
	check.Received(t, capability.Blocked(), "the call")
	p.signal(t, syscall.SIGTERM)
	p.stderr.wait(t, p, `"msg":"draining"`)
	if code, body := page(t, "http://"+admin+"/readyz"); code != 503 || !strings.Contains(body, `"draining":true`) {
		t.Errorf("/readyz while draining: %d %s", code, body)
	}
	capability.Release()
	if a := check.Received(t, answered, "the answer"); a.err != nil || string(a.resp.GetResultJson()) != `"released"` {
		t.Errorf("got %v, %v", a.resp, a.err)
	}
	if exit := p.wait(t); exit != 0 {
		t.Errorf("exit status %d", exit)
	}
	log := p.stderr.String()
	if n := strings.Count(log, `"msg":"call"`); n != 1 || !strings.Contains(log, `"msg":"stopped"`) {
		t.Errorf("%d lines of calls in\n%s", n, log)
	}
}

// A second signal ends the process at once.
func TestServeEndsAtOnceOnASecondSignal(t *testing.T) {
	t.Parallel()
	capability := gatewaytest.NewCapability("b1")
	p, public, _ := serve(t, nil, "--config", configFile(t, capability.Serve(t, call.Doc).Addr, ""))
	client := dial(t, public)
	ended := make(chan error, 1)
	go func() {
		_, err := client.Invoke(context.Background(),
			&docpb.InvokeRequest{CapabilityId: "caps", ToolName: gatewaytest.Block})
		ended <- err
	}()
	check.Received(t, capability.Blocked(), "the call")
	p.signal(t, syscall.SIGINT)
	p.stderr.wait(t, p, `"msg":"draining"`)
	p.signal(t, syscall.SIGTERM) // a script that runs tests in the background may make all of them ignore SIGINT
	if exit := p.wait(t); exit != -1 {
		t.Errorf("exit status %d, want the signal's", exit)
	}
	if err := check.Received(t, ended, "the end of the call"); status.Code(err) != codes.Unavailable {
		t.Error(err)
	}
}

// Flags take precedence over the environment, which takes precedence over the file.
func TestServeOverrides(t *testing.T) {
	t.Parallel()
	backend := gatewaytest.NewCapability("b1").Serve(t, call.Doc)
	file := configFile(t, backend.Addr, "log: {level: warn}")
	busy := taken(t)
	for name, test := range map[string]struct {
		env, args []string
		failure   string // empty if it serves
	}{
		"environment": {[]string{"CAPGATE_CONFIG=" + file, "CAPGATE_LOG_LEVEL=info"}, nil, ""},
		"flag over environment": {[]string{"CAPGATE_LISTEN=" + busy, "CAPGATE_ADMIN=" + busy,
			"CAPGATE_LOG_LEVEL=error", "CAPGATE_CONFIG=/nowhere"},
			[]string{"--listen", "127.0.0.1:0", "--admin=127.0.0.1:0", "--log-level", "info", "--config", file}, ""},
		"environment over file": {[]string{"CAPGATE_LISTEN=" + busy}, []string{"--config", file},
			busy + " is in use by another program; choose another address with --listen HOST:PORT"},
		"admin is taken": {[]string{"CAPGATE_ADMIN=" + busy}, []string{"--config", file},
			busy + " is in use by another program; choose another address with --admin HOST:PORT"},
		"one port for both": {nil, []string{"--config", file, "--listen", busy, "--admin", busy},
			"--listen HOST:PORT"},
		"no such level": {[]string{"CAPGATE_LOG_LEVEL=loud"}, []string{"--config", file},
			`log-level "loud": want debug, info, warn or error`},
		"listen without a port": {nil, []string{"--config", file, "--listen", "localhost"},
			"choose another with --listen HOST:PORT"},
		"no such file": {nil, []string{"--config", "/nowhere/capgate.yaml"},
			"/nowhere/capgate.yaml: cannot be read"},
		"file that cannot be served": {nil, []string{"--config", configFile(t, "nonsense", "")}, "fleets[0].backends"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if test.failure != "" {
				exit, stdout, stderr := runProgram(t, test.env, append([]string{"serve"}, test.args...)...)
				if exit != 1 && exit != 2 || stdout != "" || !strings.Contains(stderr, test.failure) {
					t.Errorf("exit status %d, stdout %q, stderr %q", exit, stdout, stderr)
				}
				if strings.Contains(test.failure, "taken") && exit != 1 {
					t.Errorf("exit status %d, want 1", exit)
				}
				return
			}
			p, public, admin := serve(t, test.env, test.args...)
			resp, err := dial(t, public).Invoke(t.Context(),
				&docpb.InvokeRequest{CapabilityId: "caps", ToolName: gatewaytest.Echo, ArgsJson: []byte("{}")})
			if err != nil || string(resp.GetResultJson()) != "{}" {
				t.Errorf("got %v, %v", resp, err)
			}
			if code, _ := page(t, "http://"+admin+"/livez"); code != 200 {
				t.Errorf("/livez: %d", code)
			}
			p.stop(t)
		})
	}
}

func TestCheckProgram(t *testing.T) {
	t.Parallel()
	good, bad := configFile(t, "127.0.0.1:1", ""), configFile(t, "127.0.0.1:1", "lisen: x")
	if exit, stdout, stderr := runProgram(t, nil, "check", "--config", good); exit != 0 ||
		stdout != "ok: 1 fleet, 1 backend\n" || stderr != "" {
		t.Errorf("good: exit status %d, %q, %q", exit, stdout, stderr)
	}
	exit, stdout, stderr := runProgram(t, nil, "check", "--config", bad)
	if exit != 1 || stdout != "" || !strings.HasPrefix(stderr, bad+":4: lisen: unknown field") {
		t.Errorf("bad: exit status %d, %q, %q", exit, stdout, stderr)
	}
}
