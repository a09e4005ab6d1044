package peers

import (
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"strings"
)

// Capgate determines how capgate is run.
type Capgate struct {
	Path         string   // of the binary
	Log          string   // path of its access log, default /dev/null
	Capabilities int      // more than 1: fleets <capability>-0, -1, …
	Procs        int      // GOMAXPROCS, default 1
	TLS          bool     // serve TLS with a certificate made for the run
	Args         []string // more arguments, after serve's own
	Config       string   // further lines of its configuration file
}

// CapgateSpec is capgate with its defaults.
func CapgateSpec(c Capgate) Spec {
	return Spec{Name: "capgate", Title: "**capgate**", TLS: c.TLS, Secure: true, build: buildCapgate}
}

// CapgateOn is capgate with a tenant's key, limits and policy rules as well.
func CapgateOn(c Capgate) Spec {
	s := CapgateSpec(c)
	s.Name, s.Title, s.On = "capgate-on", "**capgate, everything on**", true
	return s
}

// OverTLS returns the peer with TLS on its listener. It must be Secure.
func (s Spec) OverTLS() Spec {
	s.TLS = true
	return s
}

// Before returns the peer that s would be with the binary at path: another build, for comparison.
func Before(s Spec, path string) Spec {
	s.Path = path
	s.Name, s.Title = "before"+strings.TrimPrefix(s.Name, "capgate"), s.Title+" (before)"
	return s
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
	if env.TLS {
		config = fmt.Sprintf("tls: {cert_file: %q, key_file: %q}\n", filepath.Join(dir, certFile),
			filepath.Join(dir, keyFile))
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
		env: append(procs(max(c.Procs, 1)), "CAPGATE_ADMIN_INSECURE=1"), files: files, log: log, admin: admin,
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
		// Probes cost the same whatever the calls do, so they are kept out of the windows.
		fmt.Fprintf(&b,
			"  - capability: %s\n    backends: [%q]\n    dialect: doc\n    policy: allow\n    health: {interval: "+
				"10m}\n", name, backend)
	}
	return b.String()
}
