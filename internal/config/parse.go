package config

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/capgate/capgate/internal/lib/strictyaml"
)

// Parse parses a configuration file. Errors use name for it. The error is an Errors with all problems of the file.
// Backends may use the given protocols besides Selu's.
func Parse(name string, data []byte, protocols ...*Protocol) (*Config, error) {
	c := Default()
	p := &parser{Reader: strictyaml.Reader{File: name}, config: c, capabilities: map[string]int{},
		services: map[string]string{}, sole: map[string]string{}, protocols: protocols, shields: map[string]int{},
		tenantIDs: map[string]int{}, keyIDs: map[string]int{}, issuers: map[string]int{}, issuerURLs: map[string]int{}}
	if root, ok := p.Document(data, "a configuration", "at least one fleet is required"); ok {
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
	needManifest []needsManifest    // fields of fleets without a manifest that need one
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

// needsManifest is a field of a fleet that needs a manifest.
type needsManifest struct {
	at  strictyaml.Place
	use string // of the manifest
}

func (p *parser) requireManifest(on bool, at strictyaml.Place, use string) {
	if on {
		p.needManifest = append(p.needManifest, needsManifest{at, use})
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

// checkTop checks fields that depend on other sections.
func (p *parser) checkTop(at strictyaml.Place) {
	c := p.config
	p.applyShields()
	p.applyIssuers(at)
	p.checkReserved()
	if c.Listen == c.Admin && !strings.HasSuffix(c.Listen, ":0") {
		p.Fail(at.Child("admin"), "%s is also the public address; the admin API needs one of its own", c.Admin)
	}
	p.checkCertificates(at)
	p.checkPepper()
	if c.Proxies.ProxyProtocol != "off" && len(c.Proxies.From) == 0 {
		p.Fail(at.Child("proxy_protocol"), "needs trusted_proxies.from, the addresses whose connections begin with it")
	}
	for _, w := range p.needManifest {
		if !c.Registration.Manifests && len(c.Manifests) == 0 {
			p.Fail(w.at, "needs a manifest, which %s; set manifest, or manifests with its directory, or "+
				"registration.manifests, so that backends send it", w.use)
		}
	}
	if len(c.Fleets) == 0 && len(c.Registration.Capabilities) == 0 {
		p.Missing(at, "fleets", "at least one fleet is required")
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

// names parses the name of a file or a directory, and records its place.
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
		p.Fail(at, "%s is there twice", domain)
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
		p.Missing(at, "client_ca_file", "required by client_auth: the authorities of client certificates")
	}
	if t.CertFile == "" || t.KeyFile == "" {
		p.Fail(at, "cert_file and key_file are both required; leave tls out for cleartext")
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
