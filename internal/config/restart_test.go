package config_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/capgate/capgate/internal/config"
	"github.com/capgate/capgate/internal/testkit/check"
)

// TestNeedsRestart: a changed file names the fields that are in force only after a restart, and no others.
func TestNeedsRestart(t *testing.T) {
	t.Parallel()
	const fleets = "fleets: [{capability: weather, backends: ['127.0.0.1:1']}]\n"
	parse := func(text string) *config.Config {
		c, err := config.Parse("capgate.yaml", []byte(fleets+text))
		check.Must(t, err)
		return c
	}
	const tls = "{cert_file: a, key_file: b}"
	for name, test := range map[string]struct{ before, after, want string }{
		"nothing":            {"", "", ""},
		"drain":              {"", "drain: {delay: 1s}", ""},
		"a port":             {"listen: ':1'", "listen: ':2'", "listen"},
		"a part of the log":  {"log: {level: info}", "log: {level: error, format: text}", "log.format"},
		"a store":            {"redis: embedded", "redis: {url: 'redis://host:1'}", "redis"},
		"rules of approvals": {"", "approvals: {rules: [{tenant: '*', capability: '*', tool: '*', answers: 2}]}", ""},
		"approvals":          {"", "approvals: {ttl: 1m}", "approvals"},
		"a secret":           {"", "secret_file: k", "secret_file"},
		"artifacts":          {"", "artifacts: {max_size: 1MiB}", "artifacts"},
		"TLS":                {"", "tls: " + tls, "tls"},
		"certificates":       {"tls: " + tls, "tls: {cert_file: c, key_file: b}", ""},
		"certificates of a listener": {"listeners: [{address: '127.0.0.1:5', tls: " + tls + "}]",
			"listeners: [{address: '127.0.0.1:5', tls: {cert_file: c, key_file: d}}]", ""},
		"a listener": {"listeners: [{address: '127.0.0.1:5'}]", "listeners: [{address: '127.0.0.1:6'}]", "listeners"},
		"TLS of a listener": {"listeners: [{address: '127.0.0.1:5'}]",
			"listeners: [{address: '127.0.0.1:5', tls: " + tls + "}]", "listeners"},
		"no listener":      {"listeners: [{address: '127.0.0.1:5'}]", "", "listeners"},
		"tenants":          {"", "tenants: []", "tenants"},
		"an insecure port": {"", "operators: {insecure: true}", "operators"},
		"operators": {"",
			"operators: {tls: {cert_file: a, key_file: b, client_ca_file: c}, certificates: [{dns: ops.example.org}]}",
			"operators"},
		"a page of operators":    {"", "operators: {metrics: open}", ""},
		"several":                {"", "cors: {origins: ['https://a.example']}\naudit: {to: stdout}", "audit cors"},
		"the age of connections": {"", "max_connection_age: 1m", "max_connection_age"},
	} {
		got := config.NeedsRestart(parse(test.before), parse(test.after))
		slices.Sort(got)
		if text := strings.Join(got, " "); text != test.want {
			t.Errorf("%s: %q, want %q", name, text, test.want)
		}
	}
}
