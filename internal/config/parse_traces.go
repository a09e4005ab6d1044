package config

import (
	"net/url"
	"strings"
	"time"

	"github.com/capgate/capgate/internal/lib/strictyaml"
)

func (p *parser) traces(at strictyaml.Place) {
	t := &p.config.Traces
	p.Mapping(at, map[string]strictyaml.Field{
		"endpoint":     p.Text(&t.Endpoint, checkCollector),
		"tls":          p.backendTLS(&t.TLS),
		"headers_file": p.names(&t.HeadersFile),
		"sample":       p.Ratio(&t.Sample),
		"follow":       p.Boolean(&t.Follow),
		"service": p.Text(&t.Service,
			func(v string) string { return unless(len(v) <= 128, "has more than 128 bytes") }),
		"queue":   p.Integer(&t.Queue, 100, 1_000_000),
		"timeout": p.DurationUpTo(&t.Timeout, 100*time.Millisecond, time.Minute),
	})
	if !at.Has("endpoint") {
		p.Missing(at, "endpoint", "required: the address of the collector; leave traces out for none")
	}
	if t.TLS.Enabled && strings.HasPrefix(t.Endpoint, "http:") {
		p.Fail(at.Child("tls"), "the endpoint is not https")
	}
}

// checkCollector accepts host:port or a URL. It does not repeat a URL, which may contain a password.
func checkCollector(v string) string {
	if !strings.Contains(v, "://") {
		return checkHostPort(v, "")
	}
	u, err := url.Parse(v)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return "is neither host:port, for OTLP over gRPC, nor a URL, as in http://collector:4318, for OTLP over HTTP"
	case u.User != nil || u.Fragment != "" || u.RawQuery != "":
		return "must have neither a user nor a query nor a fragment; headers_file has credentials"
	}
	return ""
}
