package config

import (
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/capgate/capgate/internal/lib/strictyaml"
)

// CORS configures the origins whose pages may call from browsers.
type CORS struct {
	// origins: https://app.example.com, https://*.example.com for all below it, or "*"; without credentials
	// only
	Origins     []string
	Headers     []string      // headers: request headers that pages may send, besides the gateway's
	Expose      []string      // expose: response headers that pages may read, besides the gateway's
	MaxAge      time.Duration // max_age: time for which browsers cache it, up to a day; default 10m
	Credentials bool          // credentials: requests of pages may have client certificates
}

func (p *parser) cors(at strictyaml.Place) {
	c := &p.config.CORS
	c.MaxAge = 10 * time.Minute
	p.Mapping(at, map[string]strictyaml.Field{
		"origins":     p.List(p.oneMore(&c.Origins, checkOrigin)),
		"headers":     p.List(p.oneMore(&c.Headers, checkHeaderName)),
		"expose":      p.List(p.oneMore(&c.Expose, checkHeaderName)),
		"max_age":     p.DurationUpTo(&c.MaxAge, 0, 24*time.Hour),
		"credentials": p.Boolean(&c.Credentials),
	})
	if c.Credentials && slices.Contains(c.Origins, "*") {
		p.Fail(at, "origins: \"*\" is not possible with credentials: name the origins")
	}
	if !at.Has("origins") {
		p.Fail(at, "origins: at least one is required")
	}
}

// oneMore parses a text and appends it.
func (p *parser) oneMore(all *[]string, check func(string) string) strictyaml.Field {
	return func(at strictyaml.Place) {
		var one string
		if p.Text(&one, check)(at); one != "" {
			*all = append(*all, one)
		}
	}
}

func checkOrigin(v string) string {
	u, err := url.Parse(strings.Replace(v, "://*.", "://any.", 1))
	switch {
	case v == "*":
		return ""
	case err != nil, u.Scheme != "http" && u.Scheme != "https", u.Host == "",
		u.Scheme+"://"+u.Host != strings.Replace(v, "://*.", "://any.", 1),
		v != strings.ToLower(v), strings.Contains(u.Host, "*"):
		return fmt.Sprintf("%q is not an origin; write https://app.example.com, https://*.example.com or *", v)
	}
	return ""
}

var headerName = regexp.MustCompile(`^[A-Za-z0-9!#$%&'*+.^_|~-]{1,64}$`)

func checkHeaderName(v string) string {
	if v == "*" || !headerName.MatchString(v) {
		return fmt.Sprintf("%q is not the name of a header", v)
	}
	return ""
}
