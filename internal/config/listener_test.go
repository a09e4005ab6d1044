package config_test

import (
	"strings"
	"testing"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/config"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/internal/testkit/check"
)

func TestParseListeners(t *testing.T) {
	t.Parallel()
	got, err := config.Parse("f", []byte(`
fleets: [{capability: weather, backends: []}]
registration: {capabilities: ["gen-*"]}
tenants: [{id: acme, capabilities: [weather, "gen-*"]}]
listeners:
  - {address: "127.0.0.1:1", tenant: acme, capability: weather, user: ann, agent: a b, session: s, dialect: live}
  - {address: "unix:/run/x.sock", tenant: acme, capability: gen-1, mode: 0660, scopes: [read], asserts: [user]}
  - {address: ":2"}
  - {address: "10.0.0.0/8:3", tenant: acme, open: true}
  - {address: "127.0.0.0/8:4", tenant: acme}
  - {address: "[::1]:5", tenant: acme}
  - {address: "localhost:6", tenant: acme}
  - {address: "127.0.0.1:0", tenant: acme}
  - {address: "[::1/128]:7", tenant: acme}
`))
	check.Must(t, err)
	one := config.Listener{Address: "127.0.0.1:1", Mode: 0o600, Of: tenant.Listener{Name: "127.0.0.1:1",
		Tenant: "acme", Capability: "weather", User: "ann", Agent: "a b", Session: "s", Dialect: call.Live,
		Scopes: tenant.ListenerScopes}}
	two := config.Listener{Address: "unix:/run/x.sock", Mode: 0o660, Of: tenant.Listener{Name: "unix:/run/x.sock",
		Tenant: "acme", Capability: "gen-1", Scopes: tenant.Read, Limited: true, Asserts: tenant.User}}
	if l := got.Listeners; l[0] != one || l[1] != two || l[1].Socket() != "/run/x.sock" || l[0].Socket() != "" {
		t.Errorf("%+v", l)
	}
	for i, want := range []bool{true, true, false, true, true, true, true, true, true} {
		if l := &got.Listeners[i]; got.Anonymous(l) != want || l.IsLocal() != (i != 2 && i != 3) {
			t.Errorf("%s: anonymous %t, local %t", l.Address, got.Anonymous(l), l.IsLocal())
		}
	}
}

func TestParseListenersErrors(t *testing.T) {
	t.Parallel()
	const tenants = "tenants: [{id: acme, capabilities: [weather]}]\n"
	const open = "is not on loopback, and callers need no credential: every program that reaches it would be the " +
		"tenant "
	for _, test := range []struct{ more, listener, want string }{
		{tenants, `address: ":1", tenant: acme`, `listeners[0].address: :1 ` + open + "acme; use 127.0.0.1"},
		{tenants, `address: "10.0.0.1:1", tenant: acme`, open},
		{tenants, `address: "0.0.0.0/0:1", tenant: acme`, open},
		{tenants, `address: "127.0.0.0/7:1", tenant: acme`, open},
		{tenants, `address: "[::1/64]:1", tenant: acme`, open},
		{tenants, `address: "[::1/0]:1", tenant: acme`, open},
		{tenants, `address: "host:1", tenant: acme`, open},
		{tenants, `address: "[::]:1", tenant: acme, user: ann, tls: {cert_file: c, key_file: k, client_ca_file: ca}`,
			open + "acme, on behalf of the user ann, if it has a certificate of ca"},
		{"", `address: ":1"`, open + "default"},
		{tenants, `address: ":1", open: true`, "listeners[0].open: has no effect: callers need a credential"},
		{"", `address: "127.0.0.1:1", tenant: acme`, "listeners[0].tenant: there are no tenants"},
		{tenants, `address: "127.0.0.1:1", tenant: globex`, "listeners[0].tenant: there is no tenant globex"},
		{tenants, `address: "127.0.0.1:1", capability: mail`, "listeners[0].capability: there is no fleet mail"},
		{tenants, `address: "127.0.0.1:1", tenant: acme, capability: other`,
			"listeners[0].capability: tenant acme is not granted other by its capabilities"},
		{tenants, `address: "127.0.0.1:8080"`, "listeners[0].address: 127.0.0.1:8080 is also the address of listen"},
		{tenants, `address: "127.0.0.1:8081"`, "listeners[0].address: 127.0.0.1:8081 is also the address of admin"},
		{tenants, `address: "127.0.0.1:1"}, {address: "127.0.0.1:1"`,
			"f:4: listeners[1].address: 127.0.0.1:1 is already at"},
		{tenants, `address: "127.0.0.1:1"}, {address: ":1"`, "[1].address: :1 is also the address of listeners[0]"},
		{tenants, `address: "unix:run/x"`, "is not the address of a socket; write unix: and an absolute path"},
		{tenants, `address: "unix:///run/x"`, "is not the address of a socket"},
		{tenants, `address: "unix:/run/../x"`, "is not the address of a socket"},
		{tenants, `address: "unix:@x"`, "is not the address of a socket"},
		{tenants, `address: "unix:/` + strings.Repeat("x", 103) + `"`, "has at most 103 bytes"},
		{tenants, `address: "127.0.0.1:1", mode: 0600`, "listeners[0].mode: is only for the socket"},
		{tenants, `address: "unix:/x", mode: 600`, `"600" is not a mode`},
		{tenants, `address: "unix:/x", mode: 0060`, `"0060" is not a mode`},
		{tenants, `address: "127.0.0.1:1", tenant: acme, scopes: [approve]`,
			"listeners[0].scopes: approve: callers without a credential cannot have that"},
		{tenants, `address: "127.0.0.1:1", tenant: acme, scopes: [read, policy]`,
			"listeners[0].scopes: policy: callers without a credential cannot have that"},
		{tenants, `address: "127.0.0.1:1", tenant: acme, scopes: [admin]`,
			"listeners[0].scopes: admin: callers without a credential cannot have that"},
		{tenants, `address: "127.0.0.1:1", tenant: acme, scopes: []`, "listeners[0].scopes: is empty"},
		{tenants, `address: "127.0.0.1:1", tenant: acme, user: ann, asserts: [user]`, "asserts: user is set, too"},
		{tenants, `address: "127.0.0.1:1", asserts: [user]`, "asserts: is only for callers of a tenant"},
		{"", `address: "127.0.0.1:1", asserts: [user]`, "asserts: is only for callers of a tenant"},
		{tenants, `address: "127.0.0.1:1", session: " s"`, "listeners[0].session: must have 1 to 256 printable ASCII"},
		{tenants, `address: "127.0.0.1:1", user: ännchen`, "listeners[0].user: must have 1 to 256 printable ASCII"},
		{tenants, `capability: weather`, "listeners[0].address: required"},
		{tenants, `address: "127.0.0.1:1", capabilty: weather`, "capabilty: unknown field"},
	} {
		_, err := config.Parse("f", []byte(
			"listen: ':8080'\nfleets: [{capability: weather, backends: []}, {capability: "+"other, backends: []}]\n"+
				test.more+"listeners: [{"+test.listener+"}]\n"))
		line := "f:3: "
		if test.more != "" {
			line = "f:4: "
		}
		if err == nil || !strings.Contains(err.Error(), test.want) || !strings.HasPrefix(err.Error(), line) ||
			strings.Count(err.Error(), "\n") > 0 {
			t.Errorf("%s: %v, want %q", test.listener, err, test.want)
		}
	}
	many := "listeners: [" + strings.Repeat(`{address: "127.0.0.1:0"}, `, 65) + "]\n"
	if _, err := config.Parse("f", []byte(many+"fleets: [{capability: a, backends: []}]\n")); err == nil ||
		!strings.Contains(err.Error(), "there are 65 listeners; at most 64 are allowed") {
		t.Error(err)
	}
	stored := "identity: {store: redis}\nlisteners: [{address: '127.0.0.1:1', tenant: globex}]\n"
	if _, err := config.Parse("f", []byte(stored+"fleets: [{capability: a, backends: []}]\n")); err != nil {
		t.Errorf("a tenant that may be in Redis: %v", err)
	}
}
