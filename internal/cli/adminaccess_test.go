package cli

import (
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/capgate/capgate/gateway/frontdoor/problem"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/internal/testkit/check"
)

// guarded returns a stand-in for an admin API that accepts one credential over HTTP.
func guarded(key string) http.Handler {
	return problem.WithRequestID(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/readyz":
			_ = json.NewEncoder(w).Encode(map[string]any{"ready": true})
		case r.URL.Path == "/redirect":
			http.Redirect(w, r, "/v1/me", http.StatusFound)
		case r.Header.Get("Authorization") != "Bearer "+key:
			problem.Write(w, r, problem.Own(http.StatusUnauthorized, codes.Unauthenticated, "OPERATOR_UNKNOWN", "who?"))
		case r.URL.Path == "/v1/me":
			_ = json.NewEncoder(w).Encode(map[string]any{"name": "ann", "roles": []string{"viewer"}})
		case r.URL.Path == "/v1/limits":
			problem.Write(w, r, problem.Own(http.StatusForbidden, codes.PermissionDenied, "ROLE_MISSING",
				"this needs the role operator"))
		default:
			_ = json.NewEncoder(w).Encode(map[string]any{"fleets": []any{}})
		}
	}))
}

// newKey returns an operator's key, and a file that contains it.
func newKey(t *testing.T) (key, file string) {
	t.Helper()
	id, secret := tenant.NewCredential()
	key, file = tenant.Credential(id, secret), filepath.Join(t.TempDir(), "key")
	check.Must(t, os.WriteFile(file, []byte(key+"\n"), 0o600))
	return key, file
}

// TestCredentialOfAdmin: a command sends the credential of the flag, the environment or capgate login, in this
// order, and its error says what to do about a rejection.
func TestCredentialOfAdmin(t *testing.T) {
	t.Parallel()
	key, file := newKey(t)
	other, otherFile := newKey(t)
	server := httptest.NewServer(guarded(key))
	t.Cleanup(server.Close)
	admin, home := strings.TrimPrefix(server.URL, "http://"), "XDG_CONFIG_HOME="+t.TempDir()
	for _, test := range []struct {
		name string
		env  []string
		line []string
		exit int
		want string
	}{
		{"nothing", nil, []string{"status"}, exitRefused, "sign in with capgate login --admin " + admin +
			", or give an operator's key with --key-file or CAPGATE_KEY (OPERATOR_UNKNOWN)"},
		{"environment", []string{"CAPGATE_KEY=" + key}, []string{"status"}, 0, ""},
		{"flag before environment", []string{"CAPGATE_KEY=" + other}, []string{"status", "--key-file", file}, 0, ""},
		{"wrong", []string{"CAPGATE_KEY=" + key}, []string{"status", "--key-file", otherFile}, exitRefused,
			"the credential of --key-file " + otherFile + " is not accepted"},
		{"role", []string{"CAPGATE_KEY=" + key}, []string{"status", "--tenants"}, exitRefused,
			"this needs the role operator; used was the credential of CAPGATE_KEY. To use another identity, sign in"},
		{"no key", nil, []string{"status", "--key-file", os.DevNull}, exitUsage, "is empty"},
		{"no file", nil, []string{"status", "--key-file", "/nowhere"}, exitUsage,
			"--key-file: /nowhere cannot be read"},
	} {
		exit, stdout, stderr := runProgram(t, append(test.env, home), append(test.line, "--admin", admin)...)
		if exit != test.exit || !strings.Contains(stderr, test.want) || strings.Contains(stdout+stderr, "cg_") {
			t.Errorf("%s: %d %s%s", test.name, exit, stdout, stderr)
		}
	}
}

// TestLogin: capgate login stores a key that the admin API accepts, only for that address, in a file that no
// other user can read; capgate logout deletes it.
func TestLogin(t *testing.T) {
	t.Parallel()
	key, file := newKey(t)
	_, otherFile := newKey(t)
	server, second := httptest.NewServer(guarded(key)), httptest.NewServer(guarded(key))
	t.Cleanup(server.Close)
	t.Cleanup(second.Close)
	dir := t.TempDir()
	stored := filepath.Join(dir, "capgate", "credentials.json")
	capgate := func(want int, line ...string) string {
		t.Helper()
		exit, stdout, stderr := runProgram(t, []string{"XDG_CONFIG_HOME=" + dir}, line...)
		if exit != want || strings.Contains(stdout+stderr, key) {
			t.Errorf("%q: %d %s%s", line, exit, stdout, stderr)
		}
		return stdout + stderr
	}
	capgate(exitRefused, "login", "--admin", server.URL, "--key-file", otherFile)
	if _, err := os.Stat(stored); err == nil {
		t.Error("a rejected key is stored")
	}
	said := capgate(0, "login", "--admin", server.URL, "--key-file", file)
	if !strings.HasSuffix(said, "as ann: viewer\n") {
		t.Error(said)
	}
	info, err := os.Stat(stored)
	check.Must(t, err)
	if info.Mode().Perm() != 0o600 {
		t.Error(info.Mode())
	}
	capgate(0, "status", "--admin", server.URL)
	capgate(0, "status", "--admin", strings.Replace(server.URL, "127.0.0.1", "localhost", 1))
	capgate(exitRefused, "status", "--admin", second.URL)

	check.Must(t, os.Chmod(stored, 0o640))
	if said := capgate(exitUsage, "status", "--admin", server.URL); !strings.Contains(said, "chmod 600") {
		t.Error(said)
	}
	check.Must(t, os.Chmod(stored, 0o600))
	capgate(0, "logout", "--admin", server.URL)
	capgate(exitRefused, "status", "--admin", server.URL)
	if text, err := os.ReadFile(stored); err != nil || strings.Contains(string(text), key) {
		t.Errorf("got %s %v", text, err)
	}
}

// TestLoginReadsStandardInput: the key may come from another program.
func TestLoginReadsStandardInput(t *testing.T) {
	t.Parallel()
	key, _ := newKey(t)
	server := httptest.NewServer(guarded(key))
	t.Cleanup(server.Close)
	for text, want := range map[string]int{key + "\n": 0, "": exitUsage, "nonsense": exitUsage} {
		cmd := selfCommand(t, "capgate", []string{"XDG_CONFIG_HOME=" + t.TempDir()}, "login", "--admin", server.URL,
			"--key-file", "-")
		cmd.Stdin = strings.NewReader(text)
		p := launch(t, cmd)
		if exit := p.wait(t); exit != want {
			t.Errorf("got %d %s", exit, p.stderr)
		}
	}
}

// TestCredentialStaysPrivate: no credential is sent in cleartext to another machine or after a redirect, and a
// file that other users can read is reported.
func TestCredentialStaysPrivate(t *testing.T) {
	t.Parallel()
	key, file := newKey(t)
	for line, want := range map[string]string{
		"status --admin 192.0.2.1:1":                                "without TLS",
		"status --admin http://192.0.2.1:1":                         "--insecure-cleartext",
		"policy list --admin gateway.invalid:1":                     "use --admin https://gateway.invalid:1",
		"status --admin http://127.0.0.1:1 --tls-ca /nowhere":       "is cleartext",
		"status --admin 127.0.0.1:1 --tls-ca /nowhere":              "--tls-ca: /nowhere: cannot be read",
		"status --admin 127.0.0.1:1 --tls-cert /nowhere":            "--tls-cert, --tls-key",
		"register --admin 192.0.2.1:1 weather localhost:1 --ttl 9s": "without TLS",
	} {
		exit, _, stderr := runProgram(t, []string{"CAPGATE_KEY=" + key, "XDG_CONFIG_HOME=" + t.TempDir()},
			strings.Fields(line)...)
		if exit != exitUsage || !strings.Contains(stderr, want) {
			t.Errorf("%s: %d %s", line, exit, stderr)
		}
	}
	stored := filepath.Join(t.TempDir(), "capgate")
	check.Must(t, os.Mkdir(stored, 0o700))
	check.Must(t, os.Symlink(file, filepath.Join(stored, "credentials.json")))
	exit, _, stderr := runProgram(t, []string{"XDG_CONFIG_HOME=" + filepath.Dir(stored)}, "status", "--admin",
		"127.0.0.1:1")
	if exit != exitUsage || !strings.Contains(stderr, "credentials.json cannot be read") {
		t.Errorf("a link in place of stored credentials: %d %s", exit, stderr)
	}
	server := httptest.NewServer(guarded(key))
	t.Cleanup(server.Close)
	check.Must(t, os.Chmod(file, 0o644))
	if _, _, stderr := runProgram(t, nil, "status", "--admin", server.URL, "--key-file",
		file); !strings.Contains(stderr,
		"every user of this machine can read "+file) {
		t.Error(stderr)
	}
	away := httptest.NewServer(http.RedirectHandler(server.URL+"/v1/fleets", http.StatusFound))
	t.Cleanup(away.Close)
	if exit, stdout, _ := runProgram(t, nil, "status", "--admin", away.URL, "--key-file", file); exit != exitRefused {
		t.Error("a redirect was followed:", stdout)
	}
}

// TestAdminOverTLS: --tls-ca means https, and capgate login remembers the file.
func TestAdminOverTLS(t *testing.T) {
	t.Parallel()
	key, file := newKey(t)
	server := httptest.NewTLSServer(guarded(key))
	t.Cleanup(server.Close)
	ca, env := filepath.Join(t.TempDir(), "ca.pem"), []string{"XDG_CONFIG_HOME=" + t.TempDir()}
	check.Must(t, os.WriteFile(ca,
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600))
	admin := strings.TrimPrefix(server.URL, "https://")
	for _, line := range [][]string{
		{"status", "--admin", server.URL, "--key-file", file}, // of an unknown authority
		{"status", "--admin", admin, "--key-file", file},
	} {
		if exit, _, stderr := runProgram(t, env, line...); exit != exitUnreachable && exit != exitRefused {
			t.Errorf("%q: %d %s", line, exit, stderr)
		}
	}
	for _, line := range [][]string{
		{"status", "--admin", admin, "--key-file", file, "--tls-ca", ca},
		{"login", "--admin", admin, "--key-file", file, "--tls-ca", ca},
		{"status", "--admin", admin}, {"status", "--admin", server.URL},
	} {
		if exit, stdout, stderr := runProgram(t, env, line...); exit != 0 {
			t.Errorf("%q: %d %s%s", line, exit, stdout, stderr)
		}
	}
}
