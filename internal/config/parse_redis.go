package config

import (
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/capgate/capgate/internal/lib/redisurl"
	"github.com/capgate/capgate/internal/lib/strictyaml"
)

// redis parses an address, or a mapping with one.
func (p *parser) redis(at strictyaml.Place) {
	r := &p.config.Redis
	if kindOf(at.Node) != yaml.MappingNode {
		p.Text(&r.URL, CheckRedis)(at)
		return
	}
	p.Mapping(at, map[string]strictyaml.Field{
		"url":                       p.Text(&r.URL, CheckRedis),
		"password_file":             p.names(&r.PasswordFile),
		"ca_file":                   p.names(&r.CAFile),
		"cert_file":                 p.names(&r.CertFile),
		"key_file":                  p.names(&r.KeyFile),
		"server_name":               p.Text(&r.ServerName, checkServerName),
		"timeout":                   p.Duration(&r.Timeout, time.Millisecond),
		"wait_replicas":             p.Integer(&r.WaitReplicas, 1, 10),
		"store_key_file":            p.names(&r.StoreKeyFile),
		"store_key_accept_unsigned": p.Boolean(&r.Unsigned),
		"wait_timeout":              p.Duration(&r.WaitTimeout, 10*time.Millisecond),
	})
	if r.Unsigned && r.StoreKeyFile == "" {
		p.Fail(at.Child("store_key_accept_unsigned"), "has no effect without a store_key_file; leave it out")
	}
	if r.WaitTimeout > 10*time.Second {
		p.Fail(at.Child("wait_timeout"), "%s is too long; it must be at most 10s", r.WaitTimeout)
	}
	if r.WaitReplicas > 0 && r.URL == redisurl.Embedded.String() {
		p.Fail(at.Child("wait_replicas"), "an embedded Redis has no replicas; leave it out")
	}
	if r.Timeout > 10*time.Second {
		p.Fail(at.Child("timeout"), "%s is too long; it must be at most 10s", r.Timeout)
	}
	if (r.CertFile == "") != (r.KeyFile == "") {
		p.Fail(at, "cert_file and key_file belong together; give both or neither")
	}
	tls := r.CAFile != "" || r.CertFile != "" || r.ServerName != ""
	if tls && !strings.HasPrefix(r.URL, "rediss") {
		p.Fail(at, "ca_file, cert_file, key_file and server_name are for TLS, so url must begin with rediss")
	}
}

// CheckRedis returns the problem of a Redis address, or "". It does not repeat the address, which may contain a
// password.
func CheckRedis(v string) string {
	if _, err := redisurl.Parse(v); err != nil {
		return "the address " + err.Error()
	}
	return ""
}
