package config

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/capgate/capgate/internal/lib/strictyaml"
)

// Parse parses a configuration file. Errors call it name. The error is an Errors with every problem of the
// file. Backends may speak the given protocols besides Selu's.
func Parse(name string, data []byte, protocols ...*Protocol) (*Config, error) {
	c := Default()
	p := &parser{Reader: strictyaml.Reader{File: name}, config: c, capabilities: map[string]int{},
		services: map[string]string{}, sole: map[string]string{}, protocols: protocols, shields: map[string]int{},
		tenantIDs: map[string]int{}, keyIDs: map[string]int{}, issuers: map[string]int{}, issuerURLs: map[string]int{}}
	if root, ok := p.Document(data, "a configuration", "at least one fleet is needed"); ok {
		p.top(root)
	}
	if err := p.Err(); err != nil {
		return nil, err
	}
	return c, nil
}

// parser parses the fields of the file.
type parser struct {
	strictyaml.Reader
	config       *Config
	capabilities map[string]int     // capability → line of its fleet
	wanting      []wanting          // fields of fleets without a manifest that need one
	services     map[string]string  // gRPC service → path of its first occurrence
	protocols    []*Protocol        // besides Selu's
	sole         map[string]string  // address of a backend that only one fleet may have → capability of that fleet
	shields      map[string]int     // name → line
	tenantIDs    map[string]int     // id → line
	certified    []strictyaml.Place // places of certificates
	peppered     []strictyaml.Place // places of hashes that need a pepper
	keyIDs       map[string]int     // ids of all tenants' keys → line
	issuers      map[string]int     // name → line
	issuerURLs   map[string]int     // URL → line
	reserved     []reserved         // backends with a session
	shielded     []strictyaml.Place // places with the name of a shield, which are checked at the end
}

// wanting is a field of a fleet that needs a manifest.
type wanting struct {
	at   strictyaml.Place
	does string
}

func (p *parser) wants(on bool, at strictyaml.Place, does string) {
	if on {
		p.wanting = append(p.wanting, wanting{at, does})
	}
}

func (p *parser) top(at strictyaml.Place) {
	c := p.config
	p.Mapping(at, map[string]strictyaml.Field{
		"listen":      p.Text(&c.Listen, checkListen),
		"admin":       p.Text(&c.Admin, checkListen),
		"redis":       p.redis,
		"replicas":    p.replicas,
		"domains":     p.List(p.domain),
		"hosts":       p.List(p.oneMore(&c.Hosts, checkHost)),
		"admin_hosts": p.List(p.oneMore(&c.AdminHosts, checkHost)),
		"zone":        p.Text(&c.Zone, checkZone),
		"tls":         p.serverTLS,
		"drain":       p.drain,
		"log":         p.log,
		"metrics":     p.metrics,
		"rest":        p.rest,
		"cors":        p.cors,
		"artifacts":   p.filesOverHTTP,
		"overload":    p.overload,

		"client_limits": p.clientLimits,
		"traces":        p.traces,
		"fleets":        p.List(p.fleet),
		"manifests":     p.List(p.manifests),
		"dns":           p.dns,
		"registration":  p.registration,
		"policies":      p.policies,
		"approvals":     p.approvals,
		"idempotency":   p.idempotency,
		"shields":       p.List(p.shield),
		"shield":        p.shieldName(&c.Shield),
		"tenants":       p.tenants,
		"identity":      p.identity,
		"issuers":       p.List(p.issuer),
		"pepper_file":   p.names(&c.PepperFile),
		"limits":        p.limits(&c.Limits),

		"audit":           p.audit,
		"certificates":    p.List(p.certificate),
		"trusted_proxies": p.proxies,
		"proxy_protocol":  p.Text(&c.Proxies.ProxyProtocol, oneOf("off", "v1", "v2")),
	})
	p.checkTop(at)
}

// checkTop checks what several sections of the file say together.
func (p *parser) checkTop(at strictyaml.Place) {
	c := p.config
	p.applyShields()
	p.applyIssuers(at)
	p.checkReserved()
	if c.Listen == c.Admin && !strings.HasSuffix(c.Listen, ":0") {
		p.Fail(at.Child("admin"), "%s is the public address too; operators need one of their own", c.Admin)
	}
	p.checkCertificates(at)
	p.checkPepper()
	if c.Proxies.ProxyProtocol != "off" && len(c.Proxies.From) == 0 {
		p.Fail(at.Child("proxy_protocol"), "needs trusted_proxies.from: whose connections begin with it")
	}
	for _, w := range p.wanting {
		if !c.Registration.Manifests && len(c.Manifests) == 0 {
			p.Fail(w.at, "needs a manifest, which %s; or manifests, where it is found; or "+
				"registration.manifests, so that backends bring it", w.does)
		}
	}
	if len(c.Fleets) == 0 && len(c.Registration.Capabilities) == 0 {
		p.Missing(at, "fleets", "at least one fleet is needed")
	}
}

func (p *parser) manifests(at strictyaml.Place) {
	var path string
	if p.names(&path)(at); path != "" {
		p.config.Manifests = append(p.config.Manifests, path)
	}
}

// Named is a place in the file.
type Named struct {
	File string // name in errors
	Line int    // from 1
}

// names reads the name of a file or a directory.
func (p *parser) names(to *string) strictyaml.Field {
	return func(at strictyaml.Place) {
		p.Text(to, nil)(at)
		if _, known := p.config.Named[*to]; *to == "" || known {
			return
		}
		if p.config.Named == nil {
			p.config.Named = map[string]Named{}
		}
		p.config.Named[*to] = Named{p.File, at.Node.Line}
	}
}

func (p *parser) domain(at strictyaml.Place) {
	var domain string
	p.Text(&domain, checkDomain)(at)
	domain = strings.TrimSuffix(strings.ToLower(domain), ".")
	switch {
	case domain == "":
	case slices.Contains(p.config.Domains, domain):
		p.Fail(at, "%s is given twice", domain)
	default:
		p.config.Domains = append(p.config.Domains, domain)
	}
}

func (p *parser) serverTLS(at strictyaml.Place) {
	var auth string
	t := &p.config.TLS
	p.Mapping(at, map[string]strictyaml.Field{
		"cert_file":      p.names(&t.CertFile),
		"key_file":       p.names(&t.KeyFile),
		"client_ca_file": p.names(&t.ClientCAFile),
		"client_auth":    p.Text(&auth, oneOf("require", "optional")),
	})
	t.Optional = auth == "optional"
	if auth != "" && t.ClientCAFile == "" {
		p.Missing(at, "client_ca_file", "needed: the authorities of the clients' certificates that client_auth is about")
	}
	if t.CertFile == "" || t.KeyFile == "" {
		p.Fail(at, "cert_file and key_file are both needed; leave tls out for cleartext")
	}
}

func (p *parser) drain(at strictyaml.Place) {
	p.Mapping(at, map[string]strictyaml.Field{
		"delay":   p.Duration(&p.config.Drain.Delay, 0),
		"timeout": p.Duration(&p.config.Drain.Timeout, 0),
	})
}

func (p *parser) log(at strictyaml.Place) {
	var level string
	l := &p.config.Log
	p.Mapping(at, map[string]strictyaml.Field{
		"level": p.Text(&level, func(v string) string {
			levels := map[string]slog.Level{"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn,
				"error": slog.LevelError}
			found, ok := levels[v]
			if !ok {
				return fmt.Sprintf("%q is not a level; it must be debug, info, warn or error", v)
			}
			l.Level = found
			return ""
		}),
		"format": p.Text(&l.Format, func(v string) string {
			if v != "text" && v != "json" {
				return fmt.Sprintf("%q is not a format; it must be text or json", v)
			}
			return ""
		}),
	})
}

func (p *parser) metrics(at strictyaml.Place) {
	p.Mapping(at, map[string]strictyaml.Field{"tenants": p.Integer(&p.config.Metrics.Tenants, 0, 10_000)})
}
