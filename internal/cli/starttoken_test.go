package cli

import (
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/capgate/capgate/gateway/admin/guard"
	"github.com/capgate/capgate/internal/operator"
	"github.com/capgate/capgate/internal/testkit/check"
)

// TestStartToken: without operators, the admin API of a loopback address needs the token that the process
// prints, which commands of the same user find, and which is valid as long as the process runs.
func TestStartToken(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "capgate.yaml")
	check.Must(t, os.WriteFile(file, []byte(configOf("", "127.0.0.1:1")), 0o600))
	env := append(slices.Clone(asksOperators), "XDG_RUNTIME_DIR="+dir, "XDG_CONFIG_HOME="+dir)
	p, _, admin := serve(t, env, "--config", file)
	text := p.stderr.String()
	at := strings.Index(text, operator.StartPrefix)
	if at < 0 || strings.Count(text, operator.StartPrefix) != 1 {
		t.Fatalf("there is no token, or more than one: %s; at %+v", text, at)
	}
	token := strings.TrimSpace(strings.SplitN(text[at:], "\n", 2)[0])
	for credential, want := range map[string]int{"": 401, token: 200, token[:len(token)-1] + "!": 401} {
		if status, text := request(t.Context(), t, "GET", "http://"+admin+"/v1/fleets", credential); status != want {
			t.Errorf("%q: %d %s", credential, status, text)
		}
	}
	drained, out, errs := runProgram(t, env, "drain", "127.0.0.1:1", "--force", "--admin", admin)
	if exit, stdout, stderr := runProgram(t, env, "status", "--admin", admin); exit != 0 || drained != 0 ||
		!strings.Contains(stdout, "drained by start token") {
		t.Errorf("commands of the same user: %d %s%s, %d %s%s", drained, out, errs, exit, stdout, stderr)
	}
	if exit, _, stderr := runProgram(t, append(env, "XDG_RUNTIME_DIR="+t.TempDir()), "status", "--admin",
		admin); exit == 0 {
		t.Errorf("a command without the token: %s", stderr)
	}
	if exit, _, stderr := runProgram(t, env, "login", "--key-file",
		writeConfig(t, token+"\n"), "--admin", admin); exit != exitUsage ||
		!strings.Contains(stderr, "is not stored") || strings.Contains(stderr, token) {
		t.Errorf("login with the token: %d %s", exit, stderr)
	}
	files, err := filepath.Glob(filepath.Join(dir, "capgate", "admin-*"))
	check.Must(t, err)
	for _, name := range files {
		if info, err := os.Stat(name); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v %v", name, info.Mode(), err)
		}
	}
	p.stop(t)
	if left, _ := filepath.Glob(filepath.Join(dir, "capgate", "admin-*")); len(files) != 1 || len(left) != 0 {
		t.Errorf("%v, and after the end %v", files, left)
	}
	if strings.Count(p.stderr.String(), operator.StartPrefix) != 1 {
		t.Error("the token is in a log of requests")
	}
}

// TestRefusesToStart: the gateway does not start if other machines could use the admin API and no operators are
// configured.
func TestRefusesToStart(t *testing.T) {
	t.Parallel()
	_, entry := operatorKey("roles: [admin]")
	for _, test := range []struct {
		admin, operators string
		env              []string
		starts           bool
	}{
		{"0.0.0.0:0", "", asksOperators, false},
		{"':0'", "", asksOperators, false},
		{"127.0.0.1:0", "", asksOperators, true},
		{"'[::1]:0'", "", asksOperators, true},
		{"0.0.0.0:0", "operators: {keys: [" + entry + "]}", asksOperators, true},
		{"0.0.0.0:0", "operators: {}", asksOperators, true}, // without operators
		{"0.0.0.0:0", "operators: {insecure: true}", asksOperators, true},
		{"0.0.0.0:0", "", []string{"CAPGATE_ADMIN_INSECURE=1"}, true},
	} {
		file := filepath.Join(t.TempDir(), "capgate.yaml")
		check.Must(t, os.WriteFile(file, []byte("listen: 127.0.0.1:0\nadmin: "+test.admin+"\n"+test.operators+
			"\ndrain: {delay: 0s}\nfleets: [{capability: caps, backends: ['127.0.0.1:1']}]\n"), 0o600))
		p := start(t, append(slices.Clone(test.env), "XDG_RUNTIME_DIR="+t.TempDir()), "serve", "--config", file)
		if test.starts {
			said := p.stderr.wait(t, p, `"msg":"serving"`)
			if !strings.Contains(said, "Operators open the console at:\n  http://") &&
				!strings.Contains(said, "/?token=") {
				t.Errorf("%+v: no address of the console: %s", test, said)
			}
			p.stop(t)
			continue
		}
		exit, said := p.wait(t), p.stderr.String()
		for _, way := range []string{"operators", "127.0.0.1", "--admin-insecure"} {
			if exit == 0 || !strings.Contains(said, way) {
				t.Errorf("%+v: %d %s", test, exit, said)
			}
		}
	}
}

// TestStartRefusesARouteWithoutARow: a route without a row in the guard's table is not served.
func TestStartRefusesARouteWithoutARow(t *testing.T) {
	t.Parallel()
	mux := guard.NewMux()
	mux.HandleFunc("GET /v1/forgotten", func(http.ResponseWriter, *http.Request) {})
	_, err := guard.New(guard.Config{}).Handler(mux)
	if err == nil || !strings.Contains(err.Error(), "GET /v1/forgotten") {
		t.Error(err)
	}
}
