package cli

import (
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/capgate/capgate/internal/testkit/check"
)

// clientCredentials returns the scenarios in which the gateway authenticates to the server by itself.
func clientCredentials() []string {
	return []string{"auth/client-credentials-basic", "auth/client-credentials-jwt"}
}

// suiteSettings returns the settings of the fleet for a scenario. In those of OAuth, the suite has the credential.
func suiteSettings(t check.TB, dir, server string) string {
	var with struct {
		ID     string `json:"client_id"`
		Secret string `json:"client_secret"`
		Key    string `json:"private_key_pem"`
	}
	if text := os.Getenv("MCP_CONFORMANCE_CONTEXT"); text != "" {
		check.Must(t, json.Unmarshal([]byte(text), &with))
	}
	if with.ID == "" {
		return everyQuestion
	}
	field, secret := "client_secret_file", with.Secret
	if with.Key != "" {
		field, secret = "private_key_file", with.Key
	}
	file := filepath.Join(dir, "secret")
	check.Must(t, os.WriteFile(file, []byte(secret), 0o600))
	return strings.TrimSuffix(everyQuestion, "}") + fmt.Sprintf(
		", oauth: {grant: client_credentials, issuer: %q, client_id: %q, %s: %q}}", issuerOf(t, server), with.ID, field,
		file)
}

// issuerOf returns the authorization server in the metadata of a server.
func issuerOf(t check.TB, server string) string {
	u, err := url.Parse(server)
	check.Must(t, err)
	u.Path = "/.well-known/oauth-protected-resource" + u.Path
	var of struct {
		Servers []string `json:"authorization_servers"`
	}
	check.Must(t, json.Unmarshal([]byte(got(t, u.String())), &of))
	return of.Servers[0]
}
