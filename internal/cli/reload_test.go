package cli

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	docpb "github.com/capgate/capgate/proto/selu/capability"
)

// configMap is a directory as Kubernetes mounts it: all names are links through one that is replaced
// atomically.
type configMap struct {
	dir      string
	versions int
}

func (m *configMap) file(name string) string { return filepath.Join(m.dir, name) }

// put replaces all files atomically.
func (m *configMap) put(t *testing.T, files map[string]string) {
	t.Helper()
	if m.dir == "" {
		m.dir = t.TempDir()
	}
	m.versions++
	version := fmt.Sprintf("..version-%d", m.versions)
	check.Must(t, os.Mkdir(m.file(version), 0o700))
	for name, text := range files {
		check.Must(t, os.WriteFile(filepath.Join(m.dir, version, name), []byte(text), 0o600))
		if m.versions == 1 {
			check.Must(t, os.Symlink(filepath.Join("..data", name), m.file(name)))
		}
	}
	check.Must(t, os.Symlink(version, m.file("..data_tmp")))
	check.Must(t, os.Rename(m.file("..data_tmp"), m.file("..data")))
}

// configOf returns a configuration with the capability "caps".
func configOf(more string, backends ...string) string {
	return fmt.Sprintf("listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\ndrain: {delay: 0s, timeout: 20s}\n%s\nfleets: "+
		"[{capability: caps, policy: allow, slow_start: 0s, %s, backends: ['%s']}]\n",
		more, patientProbes, strings.Join(backends, "', '"))
}

// patientProbes gives a backend time for a probe, as on a busy machine.
const patientProbes = "health: {timeout: 5s}"

// waitPage requests a page until it contains text.
func waitPage(t *testing.T, url, part string) (body string) {
	t.Helper()
	check.Until(t, url+" to say "+part, func() (bool, string) {
		_, body = page(t, url)
		return strings.Contains(body, part), body
	})
	return body
}

// A SIGHUP before a gateway serves, as from systemctl reload, does not end it.
func TestSIGHUPDuringTheStart(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "capgate.yaml")
	check.Must(t, syscall.Mkfifo(file, 0o600))
	p := start(t, nil, "serve", "--config", file)
	w, err := os.OpenFile(file, os.O_WRONLY, 0) // until it reads
	check.Must(t, err)
	p.signal(t, syscall.SIGHUP)
	_, err = w.WriteString(configOf("", gatewaytest.Unreachable(t)))
	check.Must(t, err)
	check.Must(t, w.Close())
	p.stderr.wait(t, p, `"msg":"serving"`)
}

// The file changes under load, as a ConfigMap does: backends come and go, and no call fails.
func TestReloadUnderLoad(t *testing.T) {
	t.Parallel()
	first, second := gatewaytest.NewCapability("first"), gatewaytest.NewCapability("second")
	one, two := first.Serve(t, call.Doc), second.Serve(t, call.Doc)
	var files configMap
	files.put(t, map[string]string{"capgate.yaml": configOf("", one.Addr)})
	p, public, admin := serve(t, nil, "--config", files.file("capgate.yaml"))
	client := dial(t, public)
	blocked := make(chan error, 1)
	go func() {
		_, err := client.Invoke(context.Background(),
			&docpb.InvokeRequest{CapabilityId: "caps", ToolName: gatewaytest.Block})
		blocked <- err
	}()
	check.Received(t, first.Blocked(), "the call that stays")
	l := startLoad(t, 4, client)
	l.more(t, 20)
	for _, backends := range [][]string{{one.Addr, two.Addr}, {two.Addr}, {one.Addr, two.Addr}, {two.Addr}} {
		files.put(t, map[string]string{"capgate.yaml": configOf("", backends...)})
		waitPage(t, "http://"+admin+"/readyz?verbose", fmt.Sprintf(`"backends":%d`, len(backends)))
		l.more(t, 20)
	}
	before := len(first.Seen())
	l.more(t, 100)
	if n := len(first.Seen()) - before; n > 4 {
		t.Errorf("a removed backend got %d calls", n)
	}
	l.end()
	first.Release()
	if err := check.Received(t, blocked, "the end of the held call"); err != nil {
		t.Error("the call that was there when its backend was removed: ", err)
	}
	one.WaitIdle(t)
	p.stop(t)
	if n := strings.Count(p.stderr.String(), `"msg":"configuration loaded"`); n != 4 {
		t.Errorf("loaded %d times after 4 changes", n)
	}
}

// An invalid file changes nothing and is reported once; a valid one is then loaded.
func TestReloadBadFile(t *testing.T) {
	t.Parallel()
	backend := gatewaytest.NewCapability("b").Serve(t, call.Doc)
	file := configFile(t, backend.Addr, "")
	p, public, admin := serve(t, nil, "--config", file)
	readyz, metrics := "http://"+admin+"/readyz", "http://"+admin+"/metrics"
	waitPage(t, metrics, "\ncapgate_config_last_reload_successful 1\n")

	check.Must(t, os.WriteFile(file, []byte(configOf("lisen: x", backend.Addr)), 0o600))
	log := p.stderr.wait(t, p, "configuration not loaded")
	if attribute(log, "field") != "lisen" || !strings.Contains(log, `"line":4`) {
		t.Errorf("got %s", log)
	}
	body := waitPage(t, metrics, "\ncapgate_config_last_reload_successful 0\n")
	if !strings.Contains(body, "\ncapgate_config_reload_failures_total 1\n") {
		t.Error(body)
	}
	if code, body := page(t, readyz); code != 200 || !strings.Contains(body, file+":4: lisen: unknown field") {
		t.Errorf("/readyz: %d %s", code, body)
	}
	if _, err := dial(t, public).Invoke(t.Context(),
		&docpb.InvokeRequest{CapabilityId: "caps", ToolName: gatewaytest.Echo}); err != nil {
		t.Error("the previous configuration does not serve: ", err)
	}
	// Each request gets a response, also for the same file again.
	p.signal(t, syscall.SIGHUP)
	waitPage(t, metrics, "\ncapgate_config_reload_failures_total 2\n")
	if n := strings.Count(p.stderr.String(), "configuration not loaded"); n != 2 {
		t.Errorf("reported the first bad file and one SIGHUP %d times", n)
	}

	check.Must(t, os.WriteFile(file,
		[]byte(configOf("redis: embedded\nlog: {level: info, format: text}", backend.Addr)),
		0o600))
	waitPage(t, metrics, "\ncapgate_config_last_reload_successful 1\n")
	_, body = page(t, readyz)
	if strings.Contains(body, `"error"`) || !strings.Contains(body, `"needs_restart":["log.format"]`) {
		t.Errorf("/readyz: %s", body)
	}
	p.stop(t)
}

// A gateway to which tenants are configured is without them until it is restarted, but has the limits.
func TestReloadKeepsLimits(t *testing.T) {
	t.Parallel()
	backend := gatewaytest.NewCapability("b").Serve(t, call.Doc)
	const limits = "limits: {per_month: 1}\n"
	file := filepath.Join(t.TempDir(), "capgate.yaml")
	check.Must(t, os.WriteFile(file, []byte(configOf(limits, backend.Addr)), 0o600))
	p, public, admin := serve(t, nil, "--config", file)
	client := dial(t, public)
	invoke := func() codes.Code {
		_, err := client.Invoke(t.Context(), &docpb.InvokeRequest{CapabilityId: "caps", ToolName: gatewaytest.Echo})
		return status.Code(err)
	}
	if first, second := invoke(), invoke(); first != codes.OK || second != codes.ResourceExhausted {
		t.Fatalf("%v, then %v", first, second)
	}
	check.Must(t, os.WriteFile(file,
		[]byte(configOf(limits+"tenants: [{id: acme, capabilities: ['*']}]", backend.Addr)),
		0o600))
	p.signal(t, syscall.SIGHUP)
	waitPage(t, "http://"+admin+"/readyz", `"needs_restart":["tenants"]`)
	if code := invoke(); code != codes.ResourceExhausted {
		t.Errorf("%v beyond the limit", code)
	}
	p.stop(t)
}

// SIGHUP loads the file at once.
func TestReloadOnSIGHUP(t *testing.T) {
	t.Parallel()
	capability := gatewaytest.NewCapability("b")
	one, two := capability.Serve(t, call.Doc), capability.Serve(t, call.Doc)
	file := configFile(t, one.Addr, "")
	p, _, admin := serve(t, nil, "--config", file)
	check.Must(t, os.WriteFile(file, []byte(configOf("", one.Addr, two.Addr)), 0o600))
	p.signal(t, syscall.SIGHUP)
	waitPage(t, "http://"+admin+"/readyz?verbose", `"backends":2,"usable":2`)
	p.stderr.wait(t, p, `"because":"SIGHUP"`)
	p.stop(t)
}

// Certificates are replaced while connections stay, also beside an invalid configuration.
func TestReloadCertificates(t *testing.T) {
	t.Parallel()
	backend := gatewaytest.NewCapability("b").Serve(t, call.Doc)
	var files configMap
	versions := func(cert, key, more string) map[string]string {
		tls := fmt.Sprintf("tls: {cert_file: %q, key_file: %q}\n", files.file("tls.crt"), files.file("tls.key"))
		return map[string]string{"capgate.yaml": configOf(tls+more, backend.Addr), "tls.crt": cert, "tls.key": key}
	}
	files.dir = t.TempDir()
	cert, key := certificate(t, 1)
	files.put(t, versions(cert, key, ""))
	p, public, _ := serve(t, nil, "--config", files.file("capgate.yaml"))
	old := handshake(t, public)
	if got := serial(old); got != 1 {
		t.Fatalf("serial %d", got)
	}
	cert, key = certificate(t, 2)
	files.put(t, versions(cert, key, ""))
	waitSerial(t, public, 2)
	cert, _ = certificate(t, 3) // and another's key
	files.put(t, versions(cert, key, ""))
	p.signal(t, syscall.SIGHUP)
	p.stderr.wait(t, p, "configuration not loaded")
	waitSerial(t, public, 2)
	cert, key = certificate(t, 4)
	files.put(t, versions(cert, key, "nonsense: 1"))
	p.signal(t, syscall.SIGHUP)
	waitSerial(t, public, 4)
	if err := old.SetReadDeadline(time.Now().Add(time.Millisecond)); err != nil {
		t.Error(err)
	}
	if _, err := old.Read(make([]byte, 1)); err == nil || !os.IsTimeout(err) {
		t.Errorf("the connection from before: %v", err)
	}
	p.stop(t)
}

func handshake(t *testing.T, addr string) *tls.Conn {
	t.Helper()
	conn, err := tls.Dial("tcp", addr, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"http/1.1"}})
	check.Must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func serial(conn *tls.Conn) int64 {
	return conn.ConnectionState().PeerCertificates[0].SerialNumber.Int64()
}

func waitSerial(t *testing.T, addr string, want int64) {
	t.Helper()
	check.Until(t, "the certificate", func() (bool, string) {
		conn := handshake(t, addr)
		got := serial(conn)
		_ = conn.Close() // a fast machine would have thousands
		return got == want, fmt.Sprintf("serial %d, not %d", got, want)
	})
}

// certificate creates a self-signed certificate.
func certificate(t *testing.T, serial int64) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check.Must(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: "capgate"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{"localhost"}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	check.Must(t, err)
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	check.Must(t, err)
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})),
		string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}))
}
