package manifest

import (
	"fmt"
	"net"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/strictyaml"
)

func (p *parser) network(at strictyaml.Place) {
	n := &p.manifest.Network
	p.Mapping(at, map[string]strictyaml.Field{
		"mode": oneOf(p, &n.Mode, NoNetwork, Allowlist, AnyNetwork),
		"hosts": p.List(func(at strictyaml.Place) {
			var host string
			p.Text(&host, checkHost)(at)
			if host != "" {
				n.Hosts = append(n.Hosts, host)
			}
		}),
	})
	if n.Mode != Allowlist && len(n.Hosts) > 0 {
		p.Fail(at.Child("hosts"), "only for mode: allowlist; this mode is %s", n.Mode)
	}
}

// checkHost accepts "host:port", "*.host:port" and "*.host".
func checkHost(v string) string {
	const right = `write "api.example.com:443", "*.example.com:443", or "*.example.com" for any port`
	name, port, err := net.SplitHostPort(v)
	bare, wildcard := strings.CutPrefix(v, "*.")
	switch {
	case strings.Contains(v, "@"): // the error must not repeat a password
		return "must not have a user; " + right
	case err != nil && wildcard && call.IsHostName(bare):
		return ""
	case err != nil:
		return fmt.Sprintf("%.60q is not host:port; %s", v, right)
	}
	if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 || strconv.Itoa(n) != port {
		return fmt.Sprintf("%.20q is not a port from 1 to 65535; %s", port, right)
	}
	name = strings.TrimPrefix(name, "*.")
	if !call.IsHostName(name) && net.ParseIP(name) == nil {
		return fmt.Sprintf("%.60q is not a host's name; %s", name, right)
	}
	return ""
}

var variable = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,127}$`)

func (p *parser) credential(at strictyaml.Place) {
	c := Credential{Required: true}
	var scope, kind string
	p.Mapping(at, map[string]strictyaml.Field{
		"name": p.Text(&c.Name, func(v string) string {
			if !variable.MatchString(v) {
				if strings.Contains(v, "=") { // the error must not repeat the value
					return "must be a name alone, as in WEATHER_API_KEY, without a value"
				}
				return fmt.Sprintf("%.40q is not an environment variable's name, as in WEATHER_API_KEY", v)
			}
			return ""
		}),
		"scope":           oneOf(p, &scope, "system", "user"),
		"credential_type": oneOf(p, &kind, "secret"),
		"required":        p.Boolean(&c.Required),
		"description":     p.optionalDescription(&c.Description),
	})
	c.PerUser = scope == "user"
	if c.Name == "" {
		p.Missing(at, "name", "required: the environment variable's name")
	}
	if scope == "" {
		p.Missing(at, "scope", "required: system for a shared one, user for one of each user")
	}
	if line, twice := p.credentials[c.Name]; twice && c.Name != "" {
		p.Fail(at.Child("name"), "%s is already in line %d", c.Name, line)
	}
	p.credentials[c.Name] = at.Node.Line
	p.manifest.Credentials = append(p.manifest.Credentials, c)
}

// optionalDescription parses a description that may be empty.
func (p *parser) optionalDescription(to *string) strictyaml.Field {
	return func(at strictyaml.Place) {
		if at.Node.Tag == "!!str" && at.Node.Value == "" {
			return
		}
		p.Text(to, checkDescription)(at)
	}
}

func (p *parser) resources(at strictyaml.Place) {
	r := &p.manifest.Resources
	var seconds int
	p.Mapping(at, map[string]strictyaml.Field{
		"max_memory_mb":    p.Integer(&r.MaxMemoryMB, 1, 1<<30),
		"max_cpu_fraction": p.fraction(&r.MaxCPUFraction),
		"max_cpu_seconds":  p.Integer(&seconds, 1, 7*24*60*60),
		"pids_limit":       p.Integer(&r.PidsLimit, 1, 1<<22),
	})
	if seconds > 0 {
		r.MaxCPU = time.Duration(seconds) * time.Second
	}
}

// fraction parses a number of cores.
func (p *parser) fraction(to *float64) strictyaml.Field {
	var s string
	return p.Text(&s, func(v string) string {
		f, err := strconv.ParseFloat(v, 64)
		if err != nil || !(f > 0 && f <= 4096) {
			return fmt.Sprintf("%.20q is not possible; it must be a number of cores, more than 0, as in 0.5", v)
		}
		*to = f
		return ""
	})
}

func (p *parser) sharing(at strictyaml.Place) {
	var mode string
	s, idle := Sharing{MaxConcurrent: 1}, 300
	p.Mapping(at, map[string]strictyaml.Field{
		"mode":                 oneOf(p, &mode, "session", "shared"),
		"max_concurrent":       p.Integer(&s.MaxConcurrent, 1, 1_000_000),
		"idle_timeout_seconds": p.Integer(&idle, 1, 7*24*60*60),
	})
	if mode != "shared" {
		for _, name := range []string{"max_concurrent", "idle_timeout_seconds"} {
			if at.Has(name) {
				p.Fail(at.Child(name), "only for mode: shared")
			}
		}
		return
	}
	s.Shared, s.IdleTimeout = true, time.Duration(idle)*time.Second
	p.manifest.Sharing = s
}

func (p *parser) cache(at strictyaml.Place) {
	p.Mapping(at, map[string]strictyaml.Field{"enabled": p.Boolean(&p.manifest.Cache)})
}
