package config

import (
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/capgate/capgate/internal/redisurl"
)

// redis reads an address, or a mapping that has one.
func (p *parser) redis(at place) {
	r := &p.config.Redis
	if kindOf(at.node) != yaml.MappingNode {
		p.text(&r.URL, CheckRedis)(at)
		return
	}
	p.mapping(at, map[string]field{
		"url":           p.text(&r.URL, CheckRedis),
		"password_file": p.text(&r.PasswordFile, nil),
		"ca_file":       p.text(&r.CAFile, nil),
		"cert_file":     p.text(&r.CertFile, nil),
		"key_file":      p.text(&r.KeyFile, nil),
		"server_name":   p.text(&r.ServerName, checkServerName),
		"timeout":       p.duration(&r.Timeout, time.Millisecond),
	})
	if r.Timeout > 10*time.Second {
		p.fail(at.child("timeout"), "%s is too long; it must be at most 10s", r.Timeout)
	}
	if (r.CertFile == "") != (r.KeyFile == "") {
		p.fail(at, "cert_file and key_file belong together; give both or neither")
	}
	tls := r.CAFile != "" || r.CertFile != "" || r.ServerName != ""
	if tls && !strings.HasPrefix(r.URL, "rediss") {
		p.fail(at, "ca_file, cert_file, key_file and server_name are for TLS, which a url has that begins with rediss")
	}
}

// CheckRedis says what is wrong with an address of a Redis, or "". It does not repeat the
// address, which may hold a password.
func CheckRedis(v string) string {
	if _, err := redisurl.Parse(v); err != nil {
		return "the address " + err.Error()
	}
	return ""
}
