package protocols_test

import (
	"strings"
	"testing"

	"github.com/capgate/capgate/gateway/upstream/protocols"
	"github.com/capgate/capgate/internal/config"
)

// TestOAuth: the settings of access tokens that would send a credential to any authorization server, or none at all,
// are errors that say what to write.
func TestOAuth(t *testing.T) {
	t.Parallel()
	const client = "grant: client_credentials, issuer: 'https://login.example.com', client_id: c, "
	const elsewhere = "grant: authorization_code, issuer: "
	for _, c := range [][2]string{
		{client + "client_secret_file: /s"}, {client + "private_key_file: /k, private_key_id: k"},
		{client + "client_secret_file: /s, scopes: [read, 'https://x/write']"}, {"grant: authorization_code"},
		{elsewhere + "'http://127.0.0.1:9/a', scopes: [read]"},
		{"issuer: 'https://login.example.com'", "grant"}, {"grant: password", "client_credentials"},
		{"grant: client_credentials", "needs client_secret_file or private"},
		{"grant: client_credentials, client_secret_file: /s, client_id: c", "issuer: required: a credential"},
		{"grant: client_credentials, client_secret_file: /s, issuer: 'https://h'", "client_id: required: a credential"},
		{"grant: authorization_code, client_secret_file: /s, client_id: c", "issuer: required: a credential"},
		{elsewhere + "'https://h', private_key_file: /k, client_id: c", "is only for grant: client_credentials"},
		{client + "client_secret_file: /s, private_key_file: /k", "give one of the two"},
		{client + "client_secret_file: /s, private_key_id: k", "private_key_id: needs private_key_file"},
		{client + "client_secret_file: /s, scopes: ['a b']", `"a b" is not a scope`},
		{client + "client_secret_file: /s, scopes: []", "scopes"},
		{elsewhere + "'http://login.example.com'", "issuer: is cleartext HTTP; use https"},
		{elsewhere + "'https://h/?secret'", "issuer: must have neither a user, a query"},
		{elsewhere + "'login.example.com'", "issuer: is not an HTTP URL"},
		{elsewhere + "'https://u:secret@example.com'", "issuer: must have neither a user, a query"},
	} {
		fields, want := c[0], c[1]
		_, err := config.Parse("f", []byte("fleets: [{capability: a, protocol: mcp, backends: ['https://h/mcp'], "+
			"mcp_server: {oauth: {"+fields+"}}}]"), protocols.Config()...)
		if (err == nil) != (want == "") || err != nil && (!strings.Contains(err.Error(), want) ||
			strings.Contains(err.Error(), "secret@") || strings.Contains(err.Error(), "?secret")) {
			t.Errorf("%s: %v, want %q", fields, err, want)
		}
	}
}

// TestLoginsAreAtOneBackend: a fleet to which operators log in has one URL in the configuration.
func TestLoginsAreAtOneBackend(t *testing.T) {
	t.Parallel()
	for _, backends := range []string{
		"backends: ['https://h/mcp', 'https://i/mcp']", "discovery: {dns: {name: h.example.com, port: 80}}",
	} {
		_, err := config.Parse("f", []byte("fleets: [{capability: a, protocol: mcp, "+backends+
			", mcp_server: {oauth: {grant: authorization_code}}}]"), protocols.Config()...)
		if err == nil || !strings.Contains(err.Error(), "must be one URL, to which operators log in") {
			t.Errorf("%s: %v", backends, err)
		}
	}
}

// TestTokensAreEncrypted: a fleet with access tokens has no backend over cleartext, but at this machine.
func TestTokensAreEncrypted(t *testing.T) {
	t.Parallel()
	for backend, secure := range map[string]bool{"https://h/mcp": true, "http://127.0.0.1:9/mcp": true,
		"http://localhost:9/mcp": true, "http://h/mcp": false, "http://10.0.0.1:9/mcp": false} {
		for _, grant := range []string{"authorization_code", "client_credentials, issuer: 'https://h', client_id: c, " +
			"client_secret_file: /s"} {
			_, err := config.Parse("f", []byte("fleets: [{capability: a, protocol: mcp, backends: ['"+backend+
				"'], mcp_server: {oauth: {grant: "+grant+"}}}]"), protocols.Config()...)
			if (err == nil) != secure || err != nil && !strings.Contains(err.Error(), "over https alone") {
				t.Errorf("%s, %s: %v", backend, grant, err)
			}
		}
	}
}
