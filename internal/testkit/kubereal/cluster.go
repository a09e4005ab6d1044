package kubereal

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/capgate/capgate/internal/testkit/certtest"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/process"
)

// programs is the directory with etcd and kube-apiserver.
var programs = flag.String("kubernetes", "", "run the tests that need a kube-apiserver, with the programs in a "+
	"`directory`; make kubernetes builds them")

// Cluster is a kube-apiserver with its etcd.
type Cluster struct {
	Addr   string // of the API server: host:port
	CAFile string // the authority of its certificate
	Dir    string // of its files

	t      testing.TB
	admin  string // token of the group system:masters
	client *http.Client
	etcd   string // URL
	server *process.Process
}

// Start runs a Cluster until the test ends. It skips the test without the flag -kubernetes.
func Start(t testing.TB) *Cluster {
	t.Helper()
	return StartAt(t, "")
}

// StartAt runs a Cluster whose API server listens on a loopback address; "" selects any.
func StartAt(t testing.TB, addr string) *Cluster {
	t.Helper()
	if *programs == "" {
		t.Skip("make kubernetes runs it")
	}
	if addr == "" {
		addr = check.ClosedPort(t)
	}
	c := &Cluster{Addr: addr, Dir: t.TempDir(), t: t, admin: rand.Text()}
	c.certify()
	client := check.ClosedPort(t)
	c.etcd = "http://" + client
	run(t, "etcd", "--data-dir", filepath.Join(c.Dir, "etcd"), "--listen-client-urls", c.etcd,
		"--advertise-client-urls", c.etcd, "--listen-peer-urls", "http://127.0.0.1:0", "--log-level", "error",
		"--unsafe-no-fsync")
	c.StartServer()
	return c
}

// write writes a file of the Cluster.
func (c *Cluster) write(name, text string) (path string) {
	c.t.Helper()
	path = filepath.Join(c.Dir, name)
	check.Must(c.t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// certify writes the certificate of the API server, the key for tokens, and the token of the administrator.
func (c *Cluster) certify() {
	c.t.Helper()
	authority := certtest.New(c.t)
	cert, key := certtest.PEMOf(c.t, authority.Client(c.t, func(x *x509.Certificate) {
		x.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
		x.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)}
	}, "kubernetes.default.svc"))
	c.CAFile = c.write("ca.crt", authority.PEM)
	c.write("server.crt", cert)
	c.write("server.key", key)
	signing, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check.Must(c.t, err)
	der, err := x509.MarshalECPrivateKey(signing)
	check.Must(c.t, err)
	c.write("accounts.key", string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})))
	c.write("tokens.csv", fmt.Sprintf("%s,admin,admin,system:masters\n", c.admin))
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: authority.Pool, MinVersion: tls.VersionTLS12}}
	check.Cleanup(c.t, transport.CloseIdleConnections)
	c.client = &http.Client{Transport: transport}
}

// StartServer runs the API server, with more arguments, until StopServer. It returns when the server is ready.
func (c *Cluster) StartServer(more ...string) {
	c.t.Helper()
	host, port, err := net.SplitHostPort(c.Addr)
	check.Must(c.t, err)
	in := func(name string) string { return filepath.Join(c.Dir, name) }
	c.server = run(c.t, "kube-apiserver", append([]string{"--bind-address", host, "--secure-port", port,
		"-v", "0", "--etcd-servers", c.etcd, "--authorization-mode", "RBAC", "--anonymous-auth=false",
		"--token-auth-file", in("tokens.csv"), "--cert-dir", in("certs"),
		"--tls-cert-file", in("server.crt"), "--tls-private-key-file", in("server.key"),
		"--service-account-issuer", "https://kubernetes.default.svc",
		"--service-account-key-file", in("accounts.key"), "--service-account-signing-key-file", in("accounts.key"),
		"--service-cluster-ip-range", "10.0.0.0/16", "--endpoint-reconciler-type", "none", "--advertise-address",
		"10.64.0.1"}, more...)...)
	check.Succeeds(c.t, "a ready API server", func() error {
		code, body, err := c.request(http.MethodGet, "/readyz", "", nil)
		if err == nil && code != http.StatusOK {
			err = fmt.Errorf("%d %s", code, body)
		}
		if c.server.HasExited() {
			c.t.Fatalf("kube-apiserver has ended: %s", c.server.Output())
		}
		return err
	})
}

// StopServer kills the API server.
func (c *Cluster) StopServer() { c.server.Kill() }

// Freeze stops the API server: its connections stay, without responses.
func (c *Cluster) Freeze() { c.server.Signal(c.t, syscall.SIGSTOP) }

// Thaw ends a Freeze.
func (c *Cluster) Thaw() { c.server.Signal(c.t, syscall.SIGCONT) }

// run starts a program.
func run(t testing.TB, name string, args ...string) *process.Process {
	t.Helper()
	return process.Start(t, exec.Command(filepath.Join(*programs, name), args...))
}
