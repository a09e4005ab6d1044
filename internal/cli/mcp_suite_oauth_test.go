package cli

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/clienttest"
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
	scenario := os.Getenv("MCP_CONFORMANCE_SCENARIO")
	oauth := func(format string, values ...any) string {
		return strings.TrimSuffix(everyQuestion, "}") + ", oauth: {" + fmt.Sprintf(format, values...) + "}}"
	}
	switch {
	case !strings.HasPrefix(scenario, "auth/"):
		return everyQuestion
	case with.ID == "":
		return oauth("grant: authorization_code, client_id: 'https://conformance-test.local/client-metadata.json'")
	}
	field, secret := "client_secret_file", with.Secret
	if with.Key != "" {
		field, secret = "private_key_file", with.Key
	}
	file := filepath.Join(dir, "secret")
	check.Must(t, os.WriteFile(file, []byte(secret), 0o600))
	grant := "authorization_code"
	if slices.Contains(clientCredentials(), scenario) {
		grant = "client_credentials"
	}
	return oauth("grant: %s, issuer: %q, client_id: %q, %s: %q", grant, issuerOf(t, server), with.ID, field, file)
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

// needsLogin reports whether the server of the scenario requires the login of an operator.
func needsLogin() bool {
	scenario := os.Getenv("MCP_CONFORMANCE_SCENARIO")
	return strings.HasPrefix(scenario, "auth/") && !slices.Contains(clientCredentials(), scenario)
}

// loggedIn logs the fleet in when its server requires that, until its tools are known. It reports whether they are.
func loggedIn(t check.TB, admin string, login func() bool) bool {
	const attempts = 2 // the suite permits three
	for attempt := 0; ; attempt++ {
		ready := false
		check.Until(t, "the tools of the server, or a login that is needed", func() (bool, string) {
			ready = strings.Contains(got(t, admin+"/v1/capabilities"), `"last_success"`)
			state := got(t, admin+"/v1/fleets/suite/login")
			return ready || strings.Contains(state, `"problem"`) && !strings.Contains(state, "yet"), state
		})
		if ready || attempt == attempts || !login() {
			return ready
		}
	}
}

// logIn runs the command with a browser that follows its URL, and reports its success.
func logIn(dir, admin string) bool {
	args := []string{"fleets", "login", "suite", "--admin", admin}
	secret := filepath.Join(dir, "secret")
	if _, err := os.Stat(secret); err == nil {
		args = append(args, "--client-secret-file", secret)
	}
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = slices.Concat(cleanEnv(), []string{asCommand + "=capgate"})
	text, err := cmd.StderrPipe()
	if err != nil {
		return false
	}
	cmd.Stdout = os.Stderr
	if cmd.Start() != nil {
		return false
	}
	for lines := bufio.NewScanner(text); lines.Scan(); {
		fmt.Fprintln(os.Stderr, lines.Text())
		if at := strings.TrimSpace(lines.Text()); strings.HasPrefix(at, "http") {
			if resp, err := clienttest.HTTP.Get(at); err == nil {
				_ = resp.Body.Close()
			}
		}
	}
	return cmd.Wait() == nil
}
