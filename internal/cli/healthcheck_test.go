package cli

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
)

// TestHealthcheck: a gateway is healthy until it drains, over TLS with its certificate, and without a credential.
func TestHealthcheck(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cert, key := certificate(t, 1)
	other, _ := certificate(t, 2)
	for name, text := range map[string]string{"tls.crt": cert, "tls.key": key, "other.crt": other} {
		check.Must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	config := configOf("", gatewaytest.NewCapability("first").Serve(t, call.Doc).Addr)
	p, public, admin := serve(t, nil, "--config", writeConfig(t, strings.Replace(config, "delay: 0s", "delay: 60s", 1)+
		"tls: {cert_file: "+dir+"/tls.crt, key_file: "+dir+"/tls.key}\n"))
	healthcheck := func() (int, string, string) {
		return runProgram(t, []string{"CAPGATE_KEY=x"}, "healthcheck", "--addr",
			strings.Replace(public, "127.0.0.1", "localhost", 1), "--tls-ca", dir+"/tls.crt")
	}
	if exit, out, errs := healthcheck(); exit != 0 || out != "ok\n" || errs != "" {
		t.Errorf("%d %s%s", exit, out, errs)
	}
	if exit, out, errs := inProcess(t, "healthcheck", "--ready", "--addr", admin); exit != 0 || out == "" {
		t.Errorf("readiness: %d %s%s", exit, out, errs)
	}
	// Its name is localhost, and no other certificate is accepted.
	if exit, out, errs := inProcess(t, "healthcheck", "--addr", public, "--tls-ca", dir+"/tls.crt"); exit != 0 {
		t.Errorf("by its address: %d %s%s", exit, out, errs)
	}
	if exit, _, errs := inProcess(t, "healthcheck", "--addr", public, "--tls-ca", dir+"/other.crt"); exit == 0 ||
		!strings.Contains(errs, "certificate") {
		t.Errorf("with a certificate of others: %d %s", exit, errs)
	}
	p.signal(t, syscall.SIGTERM)
	p.stderr.wait(t, p, `"msg":"draining"`)
	if exit, _, errs := healthcheck(); exit != exitRefused || !strings.Contains(errs, "503 Service Unavailable") {
		t.Errorf("while it drains: %d %s", exit, errs)
	}
	if exit, _, errs := inProcess(t, "healthcheck", "--ready", "--addr", admin); exit != exitRefused ||
		!strings.Contains(errs, "/readyz of "+admin+" answers 503 Service Unavailable") {
		t.Errorf("readiness while it drains: %d %s", exit, errs)
	}
	if exit, _, errs := inProcess(t, "healthcheck", "--addr", "127.0.0.1:1"); exit != exitUnreachable {
		t.Errorf("without a gateway: %d %s", exit, errs)
	}
	server := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(server.Close)
	if exit, _, errs := inProcess(t, "healthcheck", "--addr", server.URL); exit != exitRefused {
		t.Errorf("another server: %d %s", exit, errs)
	}
}

// TestDemoOfTheCapabilityAlone: demo --weather serves the capability to a gateway elsewhere, and ends with status 0.
func TestDemoOfTheCapabilityAlone(t *testing.T) {
	t.Parallel()
	p := start(t, nil, "demo", "--weather", "127.0.0.1:0")
	text := p.stderr.wait(t, p, "Stop with Ctrl-C.\n")
	_, rest, _ := strings.Cut(text, " at ")
	address, _, _ := strings.Cut(rest, ". ")
	_, public, _ := serve(t, nil, "--config", writeConfig(t, "listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\n"+
		"fleets: [{capability: weather, policy: allow, backends: ['"+address+"']}]\n"))
	check.Succeeds(t, "a call", func() error {
		exit, out, errs := runProgram(t, nil, "invoke", "--addr", public, "weather", "get_current_weather",
			`{"location":"Berlin"}`)
		if exit != 0 {
			return refused("%s%s", out, errs)
		}
		return nil
	})
	if exit, out, errs := inProcess(t, "probe", address); exit != 0 || !strings.Contains(out, "90 cities") {
		t.Errorf("probe: %d %s%s", exit, out, errs)
	}
	p.signal(t, syscall.SIGTERM)
	if exit := p.wait(t); exit != 0 {
		t.Errorf("it ended with %d", exit)
	}
	if exit, _, errs := inProcess(t, "demo", "--weather", address+"x"); exit != exitUsage {
		t.Errorf("a wrong address: %d %s", exit, errs)
	}
}
