package settings

import (
	"fmt"
	"strings"

	"github.com/capgate/capgate/internal/clientaddr"
	"github.com/capgate/capgate/internal/config"
	"github.com/capgate/capgate/internal/lib/redisurl"
	"github.com/capgate/capgate/internal/lib/strictyaml"
	"github.com/capgate/capgate/internal/tenant"
)

// requirement is a row of the checklist of docs/run/production.md, named after the field that meets it.
type requirement struct {
	field string
	// missing returns what is missing and what meets it, or "".
	missing func(c *config.Config, memory int64) string
}

var requirements = []requirement{
	{"tls", withoutTLS},
	{"tenants", withoutCallers},
	{"listeners", withOpenListeners},
	{"redis", withoutRedis},
	{"redis.password_file", withoutPassword},
	{"redis.wait_replicas", func(c *config.Config, _ int64) string {
		return unless(c.Redis.WaitReplicas > 0, "a failover of Redis may forget that an approval was used, and the "+
			"call runs twice; set it to the number of replicas that must know")
	}},
	{"secret_file", func(c *config.Config, _ int64) string {
		return unless(c.SecretFile != "", "records in Redis are not signed, so that write access to Redis is enough "+
			"to forge rules, keys and approvals; name a file with 32 random bytes that all replicas have")
	}},
	{"operators", withoutOperators},
	{"limits", withoutLimits},
	{"audit", func(c *config.Config, _ int64) string {
		return unless(c.Audit.Path != "", "calls and decisions of operators are not recorded; add audit: {to: FILE}")
	}},
	{"drain.delay", func(c *config.Config, _ int64) string {
		return unless(c.Drain.Delay > 0, "a load balancer still sends calls to a replica that ends; set the time that "+
			"it takes to notice, such as 5s")
	}},
	{"overload.max_memory", withTooMuchMemory},
}

// Production returns what a configuration lacks for production, with the number of requirements. Memory is that of the
// process in bytes; 0: unknown.
func Production(file string, c *config.Config, memory int64) (missing []error, of int) {
	for _, r := range requirements {
		if text := r.missing(c, memory); text != "" {
			missing = append(missing, strictyaml.Error{File: file, Path: r.field, Text: text})
		}
	}
	return missing, len(requirements)
}

func unless(met bool, text string) string {
	if met {
		return ""
	}
	return text
}

func withoutTLS(c *config.Config, _ int64) string {
	// A proxy that sends the PROXY protocol passes connections on, with TLS or without.
	if len(c.Proxies.Trusted) > 0 && c.ProxyProtocol == clientaddr.Off {
		return ""
	}
	var open []string
	for _, l := range append([]config.Listener{{Address: c.Listen, TLS: c.TLS}}, c.Listeners...) {
		if l.TLS.CertFile == "" && !l.IsLocal() {
			open = append(open, l.Address)
		}
	}
	return unless(len(open) == 0, "callers send their credentials in cleartext to "+strings.Join(open, " and ")+
		"; set cert_file and key_file, or name the proxy that ends TLS in trusted_proxies, without proxy_protocol")
}

func withoutCallers(c *config.Config, _ int64) string {
	return unless(c.Multi, "callers need no credential, and may name any user; add tenants with keys, issuers or "+
		"certificates, or identity: {store: redis}")
}

func withOpenListeners(c *config.Config, _ int64) string {
	var open []string
	for i := range c.Listeners {
		if l := &c.Listeners[i]; c.Anonymous(l) && !l.IsLocal() && (l.TLS.ClientCAFile == "" || l.TLS.Optional) {
			open = append(open, l.Address)
		}
	}
	return unless(len(open) == 0, "every client that reaches "+strings.Join(open, " or ")+" may call without a "+
		"credential; bind to loopback or a unix socket, or require client certificates")
}

func withoutRedis(c *config.Config, _ int64) string {
	return unless(c.Redis.URL != config.Default().Redis.URL, "it is embedded: approvals, rules and use are lost at a "+
		"restart, and a second replica does not share them; name a Redis")
}

func withoutPassword(c *config.Config, _ int64) string {
	target, err := redisurl.Parse(c.Redis.URL)
	if err != nil || c.Redis.URL == config.Default().Redis.URL {
		return ""
	}
	switch {
	case c.Redis.PasswordFile == "" && c.Redis.CertFile == "" && target.Password == "":
		return "every program that reaches Redis may read and write its state; name a file with the password of a " +
			"user of deploy/redis/users.acl"
	case !target.TLS:
		return "the password of Redis goes over the network in cleartext; use rediss:// with ca_file"
	}
	return ""
}

func withoutOperators(c *config.Config, _ int64) string {
	o := &c.Operators
	switch {
	case o.Insecure || len(o.Keys)+len(o.Certificates)+len(o.People) == 0:
		return "the admin API authenticates no operator, so that approvals and changed rules carry no name; add " +
			"people of an issuer with sign_in, keys or certificates"
	case !c.IsAdminLocal() && o.TLS.CertFile == "":
		return "operators send their credentials in cleartext to " + c.Admin + "; add operators.tls, or bind admin " +
			"to loopback behind a proxy that ends TLS"
	}
	return ""
}

func withoutLimits(c *config.Config, _ int64) string {
	bounded := func(l *tenant.Limits) bool {
		return l != nil && !l.Shadow && (l.CallsPerSecond > 0 || l.Concurrent > 0 || l.PerDay > 0 || l.PerMonth > 0)
	}
	others := len(c.Tenants) == 0 || c.Identity.Stored // tenants without limits of their own
	for i := range c.Tenants {
		own := c.Tenants[i].Limits
		if own != nil && !bounded(own) {
			return fmt.Sprintf("the tenant %s has limits of its own without calls_per_second, concurrent, per_day or "+
				"per_month, or with shadow; add one", c.Tenants[i].ID)
		}
		others = others || own == nil
	}
	return unless(!others || bounded(&c.Limits), "nothing bounds the calls of a tenant without limits of its own; add "+
		"limits, such as {calls_per_second: 100, concurrent: 50}")
}

func withTooMuchMemory(c *config.Config, memory int64) string {
	most := c.Overload.MaxMemory
	switch {
	case c.Overload.Off:
		return "load shedding is off, and an overload ends the process; remove overload: off"
	case memory > 0 && most > memory*9/10:
		return fmt.Sprintf("%d bytes are more than nine tenths of the %d that this process may use; lower it, or "+
			"leave it out for three quarters", most, memory)
	}
	return ""
}
