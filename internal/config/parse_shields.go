package config

import (
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/strictyaml"
)

// NoShield is the name in a fleet that uses no shield although the file has a default.
const NoShield = "none"

func (p *parser) shield(at strictyaml.Place) {
	s := Shield{Timeout: 500 * time.Millisecond, Cache: 10_000}
	p.Mapping(at, map[string]strictyaml.Field{
		"name":       p.Text(&s.Name, checkShield),
		"address":    p.Text(&s.Address, checkShieldAddress),
		"url":        p.Text(&s.URL, checkShieldURL),
		"tls":        p.backendTLS(&s.TLS),
		"timeout":    p.DurationUpTo(&s.Timeout, time.Millisecond, 30*time.Second),
		"on_failure": p.verdict(&s.OnFailure),
		"cache":      p.Integer(&s.Cache, 0, 1_000_000),
	})
	switch {
	case s.Name == "":
		p.Missing(at, "name", "required: the shield's name in fleets")
	case p.shields[s.Name] > 0:
		p.Fail(at.Child("name"), "%s is already in line %d", s.Name, p.shields[s.Name])
	default:
		p.shields[s.Name] = at.Child("name").Node.Line
	}
	switch {
	case at.Has("address") && at.Has("url"):
		p.Fail(at.Child("url"), "address is there, too; give one of the two")
	case !at.Has("address") && !at.Has("url"):
		p.Missing(at, "address", "required: host:port of its gRPC server; or the url of its HTTP form")
	}
	if s.TLS.Enabled && strings.HasPrefix(s.URL, "http:") {
		p.Fail(at.Child("tls"), "the url is not https")
	}
	p.config.Shields = append(p.config.Shields, s)
}

// shieldName parses the name of a shield, which may be defined later in the file.
func (p *parser) shieldName(to *string) strictyaml.Field {
	return func(at strictyaml.Place) {
		before := len(p.Errors)
		if p.Text(to, nil)(at); len(p.Errors) == before && *to != NoShield {
			p.shielded = append(p.shielded, strictyaml.Place{Path: at.Path, Node: at.Node})
		}
	}
}

// applyShields rejects unknown names, and sets the file's default for fleets that name none.
func (p *parser) applyShields() {
	for _, at := range p.shielded {
		var name string
		p.Text(&name, nil)(at)
		if p.shields[name] == 0 {
			p.Fail(at, "there is no shield %q in shields", name)
		}
	}
	c := p.config
	if c.Shield == NoShield {
		c.Shield = ""
	}
	for i := range c.Fleets {
		switch f := &c.Fleets[i]; f.Shield {
		case "":
			f.Shield = c.Shield
		case NoShield:
			f.Shield = ""
		}
	}
}

func checkShield(v string) string {
	switch {
	case v == NoShield:
		return "none is reserved for fleets without a shield; choose another name"
	case !call.IsZone(v):
		return fmt.Sprintf("%q is not a name; it has 1 to 63 letters, digits, hyphens, dots and underscores", v)
	}
	return ""
}

func checkShieldAddress(v string) string {
	return checkHostPort(v, "TLS is switched on by the shield's tls field, and its HTTP form has a url instead")
}

// checkShieldURL does not repeat the URL, which may contain a password.
func checkShieldURL(v string) string {
	u, err := url.Parse(v)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return "is not an HTTP URL; write it whole, as in http://shield:9090/evaluate"
	case u.User != nil || u.Fragment != "":
		return "must have neither a user nor a fragment"
	case u.Path == "" || u.Path == "/":
		return "lacks the path; Shield's own server has /evaluate"
	}
	return ""
}
