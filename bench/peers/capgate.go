package peers

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/netip"
	"path/filepath"
	"strings"
	"time"
)

// Capgate says how capgate is run.
type Capgate struct {
	Path         string   // of the binary
	Log          string   // where its access log goes, default /dev/null
	Capabilities int      // more than 1: fleets <capability>-0, -1, …
	Procs        int      // GOMAXPROCS, default 1
	TLS          bool     // serve TLS with a certificate made for the run
	Args         []string // more arguments, after serve's own
	Config       string   // more of its file
}

// CapgateSpec is capgate with everything that it does by default.
func CapgateSpec(c Capgate) Spec {
	return Spec{Name: "capgate", Title: "**capgate**", TLS: c.TLS, build: buildCapgate}
}

func buildCapgate(env Env, dir string, listen netip.AddrPort) (command, error) {
	c := env.Capgate
	if c.Path == "" {
		return command{}, errors.New("no binary: give --capgate")
	}
	admin, err := freePort()
	if err != nil {
		return command{}, err
	}
	files := map[string]string{}
	config := ""
	if c.TLS {
		cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
		if files["cert.pem"], files["key.pem"], err = certificate(); err != nil {
			return command{}, err
		}
		config = fmt.Sprintf("tls: {cert_file: %q, key_file: %q}\n", cert, key)
	}
	files["capgate.yaml"] = config + c.Config + fleets(max(c.Capabilities, 1), env.Backend)
	log := c.Log
	if log == "" {
		log = "/dev/null"
	}
	return command{
		path: c.Path,
		args: append([]string{"serve", "--config", filepath.Join(dir, "capgate.yaml"),
			"--listen", listen.String(), "--admin", admin.String()}, c.Args...),
		env: procs(max(c.Procs, 1)), files: files, log: log, admin: admin,
	}, nil
}

func fleets(n int, backend netip.AddrPort) string {
	var b strings.Builder
	b.WriteString("fleets:\n")
	for i := range n {
		name := "weather"
		if n > 1 {
			name = fmt.Sprintf("weather-%d", i)
		}
		// Probes cost the same whatever the calls do: they are kept out of the windows.
		fmt.Fprintf(&b, "  - capability: %s\n    backends: [%q]\n    dialect: doc\n    policy: allow\n    health: {interval: 10m}\n", name, backend)
	}
	return b.String()
}

// certificate makes one for 127.0.0.1 that lasts a day.
func certificate() (cert, key string, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return "", "", err
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()), NotBefore: now.Add(-time.Hour), NotAfter: now.Add(24 * time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		return "", "", err
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return "", "", err
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})),
		string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})), nil
}
