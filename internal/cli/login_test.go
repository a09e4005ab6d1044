package cli

import (
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/capgate/capgate/internal/operator"
	"github.com/capgate/capgate/internal/testkit/check"
)

// serveGuarded runs a gateway whose admin API requires a credential, and returns its start token.
func serveGuarded(t *testing.T, runtimeDir string) (admin, token string) {
	t.Helper()
	file := writeConfig(t, "listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\npolicies: {}\ntenants: [{id: acme, "+
		"capabilities: ['*']}]\n"+"fleets: [{capability: caps, policy: ask, backends: ['127.0.0.1:1']}]\n")
	_, _, admin = serve(t, []string{"CAPGATE_ADMIN_INSECURE=", "XDG_RUNTIME_DIR=" + runtimeDir}, "--config", file)
	files, err := filepath.Glob(filepath.Join(runtimeDir, "capgate", "admin-*"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	text, err := os.ReadFile(files[0])
	check.Must(t, err)
	return admin, strings.TrimSpace(string(text))
}

// TestStartTokenIsFound: commands of the user who started a gateway need no credential, over HTTP and gRPC; the
// errors of other users' commands say what to do.
func TestStartTokenIsFound(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	admin, token := serveGuarded(t, dir)
	for _, line := range [][]string{{"status"}, {"policy", "list"}} {
		line = append(line, "--admin", admin)
		if exit, stdout, stderr := runProgram(t, []string{"XDG_RUNTIME_DIR=" + dir}, line...); exit != 0 ||
			strings.Contains(stdout+stderr, token) {
			t.Errorf("%q: %d %s%s", line, exit, stdout, stderr)
		}
		if exit, _, stderr := runProgram(t, []string{"XDG_RUNTIME_DIR=" + t.TempDir()}, line...); exit != exitRefused ||
			!strings.Contains(stderr, "sign in with capgate login --admin "+admin) {
			t.Errorf("%q: %d %s", line, exit, stderr)
		}
		key, file := newKey(t)
		exit, _, stderr := runProgram(t, []string{"XDG_RUNTIME_DIR=" + dir}, append(line, "--key-file", file)...)
		if exit != exitRefused || !strings.Contains(stderr, "is not accepted") || strings.Contains(stderr, key) {
			t.Errorf("%q: %d %s", line, exit, stderr)
		}
	}
}

// TestLoginWithABrowser: a person signs in with a browser and admits capgate login; capgate logout ends the
// session at the gateway.
func TestLoginWithABrowser(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	admin, token := serveGuarded(t, dir)
	env := []string{"XDG_RUNTIME_DIR=" + t.TempDir(), "XDG_CONFIG_HOME=" + t.TempDir(), "DISPLAY=", "WAYLAND_DISPLAY="}
	p := start(t, env, "login", "--admin", admin)
	address := loginAddress(t, p)

	jar, err := cookiejar.New(nil)
	check.Must(t, err)
	browser := &http.Client{Jar: jar, Timeout: check.Patience}
	read := func(resp *http.Response, err error) string {
		t.Helper()
		check.Must(t, err)
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		check.Must(t, err)
		return string(text)
	}
	next := strings.TrimPrefix(address, "http://"+admin)
	page := read(browser.PostForm("http://"+admin+"/signin/key", url.Values{"key": {token}, "next": {next}}))
	form := url.Values{}
	for _, input := range strings.Split(page, `<input type="hidden" name="`)[1:] {
		name, rest, _ := strings.Cut(input, `" value="`)
		value, _, _ := strings.Cut(rest, `"`)
		form.Set(name, value)
	}
	if answer := read(browser.PostForm("http://"+admin+"/cli", form)); !strings.Contains(answer,
		"Return to the terminal") {
		t.Fatal(page, answer)
	}
	if exit := p.wait(t); exit != 0 || !strings.Contains(p.stdout.String(), "signed in at "+admin+" as start token: ") {
		t.Fatal(exit, p.stdout, p.stderr)
	}
	for _, line := range [][]string{{"status"}, {"policy", "list"}} {
		if exit, stdout, stderr := runProgram(t, env, append(line, "--admin", admin)...); exit != 0 {
			t.Errorf("%q: %d %s%s", line, exit, stdout, stderr)
		}
	}
	stored, err := loadCredentialsIn(strings.TrimPrefix(env[1], "XDG_CONFIG_HOME="))
	check.Must(t, err)
	if strings.Contains(p.stdout.String()+p.stderr.String(), operator.SessionPrefix) {
		t.Error("the credential is printed")
	}
	if exit, stdout, stderr := runProgram(t, env, "logout", "--admin", admin); exit != 0 || stderr != "" {
		t.Error(exit, stdout, stderr)
	}
	key := filepath.Join(t.TempDir(), "key")
	check.Must(t, os.WriteFile(key, []byte(stored), 0o600))
	if exit, stdout, _ := runProgram(t, env, "status", "--admin", admin, "--key-file", key); exit != exitRefused {
		t.Error("the session is still valid:", stdout)
	}
}

// loginAddress returns the URL that capgate login asks a person to open.
func loginAddress(t *testing.T, p *program) string {
	t.Helper()
	_, rest, _ := strings.Cut(p.stderr.wait(t, p, "\n\n  http://"), "\n\n  ")
	address, _, _ := strings.Cut(rest, "\n")
	return address
}

// loadCredentialsIn returns the only credential in a user's store.
func loadCredentialsIn(dir string) (credential string, err error) {
	text, err := os.ReadFile(filepath.Join(dir, "capgate", "credentials.json"))
	_, rest, _ := strings.Cut(string(text), `"credential": "`)
	credential, _, _ = strings.Cut(rest, `"`)
	return credential, err
}
