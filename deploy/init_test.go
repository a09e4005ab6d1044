package deploy

import (
	"crypto/x509"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/capgate/capgate/internal/testkit/certtest"
	"github.com/capgate/capgate/internal/testkit/check"
)

// withOperators is a flag without which TestMain makes every program an operator.
const withOperators = "--admin-insecure=false"

// initialize runs capgate init and returns its directory. Only the owner may read its secrets.
func initialize(t *testing.T, way string, flags ...string) (dir, out string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "made")
	out, _ = command(t, capgate, append([]string{"init", "--for", way, dir}, flags...)...)
	git := []string{"--git-dir=" + t.TempDir() + "/git", "--work-tree=" + dir}
	command(t, "git", append(git, "init", "-q")...)
	added, _ := command(t, "git", append(git, "ls-files", "--others", "--exclude-standard")...)
	if !strings.Contains(added, "capgate.yaml\n") {
		t.Errorf("git adds %q", added)
	}
	for name := range strings.Lines(added) {
		if strings.Contains(name, ".key\n") || strings.Contains(name, "secrets/") ||
			strings.Contains(name, "users.acl") {
			t.Errorf("git adds %s", name)
		}
	}
	check.Must(t, filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		check.Must(t, err)
		info, err := entry.Info()
		check.Must(t, err)
		secret := strings.HasSuffix(path, ".key") || strings.Contains(path, "/secrets/") ||
			strings.HasSuffix(path, "redis-users.acl")
		if mode := info.Mode().Perm(); secret && filepath.Ext(path) != ".crt" && mode != 0o600 {
			t.Errorf("%s has the mode %o", path, mode)
		}
		return nil
	}))
	return dir, out
}

// initialized returns a copy of a file of capgate init, with replacements.
func initialized(t *testing.T, file string, pairs ...string) (changed string) {
	t.Helper()
	text, err := os.ReadFile(file)
	check.Must(t, err)
	changed = filepath.Join(t.TempDir(), filepath.Base(file))
	check.Must(t, os.WriteFile(changed, []byte(replace(t, string(text), pairs...)), 0o600))
	return changed
}

// missing checks a configuration and returns the fields that capgate check --production reports. The output of init
// names each of them.
func missing(t *testing.T, file, out string) (fields []string) {
	t.Helper()
	command(t, capgate, "check", file)
	text, _ := exec.CommandContext(t.Context(), capgate, "check", "--production", file).CombinedOutput()
	for line := range strings.Lines(string(text)) {
		field, ok := strings.CutPrefix(line, file+": ")
		if field, _, _ = strings.Cut(field, ": "); !ok || field == "warning" {
			continue
		}
		fields = append(fields, field)
		if !strings.Contains(out, "capgate.yaml: "+field+": ") {
			t.Errorf("init does not name %s:\n%s", field, out)
		}
	}
	return fields
}

// worked calls the demonstration through a gateway with the key of capgate init. An operator then lists its fleets and
// sets a rule.
func worked(t *testing.T, dir, admin string, invoke ...string) {
	t.Helper()
	invoke = append([]string{"invoke", "--key-file", dir + "/caller.key"}, invoke...)
	check.Succeeds(t, "a call", func() error {
		out, err := exec.CommandContext(t.Context(), capgate, append(invoke, "weather", "get_current_weather",
			`{"location":"Berlin"}`)...).CombinedOutput()
		if err != nil || !strings.Contains(string(out), "Germany") {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	})
	if out, _ := command(t, capgate, "status", "--admin", admin, "--key-file", dir+"/operator.key"); !strings.Contains(
		out, "weather") {
		t.Errorf("status: %s", out)
	}
	// A stored rule shows that the gateway may write to the store.
	command(t, capgate, "policy", "--admin", admin, "--key-file", dir+"/operator.key", "--tenant", "main", "set",
		"weather", "get_forecast", "block")
	invoke[2] = dir + "/operator.key"
	out, err := exec.CommandContext(t.Context(), capgate, append(invoke, "weather", "get_current_weather")...).
		CombinedOutput()
	if err == nil || !strings.Contains(string(out), "CREDENTIAL_INVALID") {
		t.Errorf("another key: %s", out)
	}
}

// weatherAlone starts the demonstration capability and returns its address.
func weatherAlone(t *testing.T) (address string) {
	t.Helper()
	_, rest, _ := strings.Cut(start(t, capgate, "demo", "--weather", "127.0.0.1:0").wait(t, "Ctrl-C"), " at ")
	address, _, _ = strings.Cut(rest, ". ")
	return address
}

// TestInitForCompose: the files are a valid compose file that needs no clone, and its gateways, haproxy and Redis work.
func TestInitForCompose(t *testing.T) {
	t.Parallel()
	f := newFleet()
	const image = "registry/gw:1"
	dir, out := initialize(t, "compose", "--tls", "self-signed", "--host", "gw.example,"+f.host(9), "--image", image)
	file, services := checkCompose(t, dir+"/compose.yaml")
	checkHealthchecks(t, services)
	checkHealthOfOtherName(t, dir, services)
	config, err := os.ReadFile(dir + "/config/capgate.yaml")
	check.Must(t, err)
	for _, fault := range networkFaults(file, string(config)) {
		t.Error(fault)
	}
	for name, service := range services {
		own := name == "gateway" || name == "weather"
		if field(service, "build") != nil || own != (field(service, "image") == image) {
			t.Errorf("%s: %v", name, service)
		}
	}
	for name, secret := range asMap(field(file, "secrets")) {
		if _, err := os.Stat(filepath.Join(dir, fmt.Sprint(field(secret, "file")))); err != nil {
			t.Errorf("the secret %s: %v", name, err)
		}
	}

	password, err := os.ReadFile(dir + "/secrets/redis_password")
	check.Must(t, err)
	redis := startRedis(t, initialized(t, dir+"/redis/compose.acl", "@PASSWORD@", strings.TrimSpace(string(password))))
	f.haproxy = dir + "/haproxy.cfg"
	pairs := []string{"/run/secrets", dir + "/secrets", "/etc/capgate/", dir + "/config/"}
	got := missing(t, initialized(t, dir+"/config/capgate.yaml", pairs...), out)
	if want := []string{"redis.password_file", "redis.wait_replicas", "operators"}; !slices.Equal(got, want) {
		t.Errorf("production lacks %v, want %v", got, want)
	}
	f.file = initialized(t, dir+"/config/capgate.yaml", append(pairs, `admin: "172.28.5.0/24:8081"`, "",
		"redis:6379", redis, "dns:///weather:50051",
		weatherAlone(t), "172.28.5.10/32", "127.0.0.1/32")...)
	f.flags = []string{withOperators}
	f.startAll(t)
	f.startHaproxy(t)
	worked(t, dir, f.host(9)+consolePort, "--addr", "https://"+f.host(9)+publicPort, "--tls-ca", dir+"/config/tls.crt")
}

// checkHealthOfOtherName checks that the gateway of capgate init is also healthy with a certificate for a name other
// than localhost.
func checkHealthOfOtherName(t *testing.T, dir string, services map[string]any) {
	t.Helper()
	other := t.TempDir()
	cert, key := certtest.PEMOf(t, certtest.New(t).Client(t, func(c *x509.Certificate) {
		c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	}, "gw.example"))
	check.Must(t, os.WriteFile(other+"/tls.crt", []byte(cert), 0o600))
	check.Must(t, os.WriteFile(other+"/tls.key", []byte(key), 0o600))
	file := filepath.Join(other, "capgate.yaml")
	check.Must(t, os.WriteFile(file, []byte("listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\ntls: {cert_file: "+other+
		"/tls.crt, key_file: "+other+"/tls.key}\nfleets: [{capability: weather, policy: allow, backends: ['"+
		weatherAlone(t)+"']}]\n"), 0o600))
	public := attribute(start(t, capgate, "serve", file).wait(t, `"msg":"serving"`), "listen")
	for trusted, healthy := range map[string]bool{other: true, dir + "/config": false} {
		err := runHealthcheckOf(t, services, "gateway", "/capgate\x00", capgate+"\x00", "/etc/capgate/tls.crt",
			trusted+"/tls.crt", "healthcheck", "healthcheck\x00--addr\x00"+public)
		if (err == nil) != healthy {
			t.Errorf("the health check with %s: %v", trusted, err)
		}
	}
}

// checkCopied runs the step of capgate init --for systemd that copies the files, with another directory in place of /.
// It keeps an existing configuration and does not overwrite secrets.
func checkCopied(t *testing.T, dir, out string) {
	t.Helper()
	root := t.TempDir()
	step := regexp.MustCompile(`(?m)^ +sudo (test .* && )sudo (cp .*)$`).FindStringSubmatch(out)
	if step == nil {
		t.Fatalf("no step copies the files:\n%s", out)
	}
	line := regexp.MustCompile(` (/etc/)`).ReplaceAllString(step[1]+step[2], " "+root+"$1")
	check.Must(t, os.MkdirAll(root+"/etc/capgate", 0o755))
	check.Must(t, os.WriteFile(root+"/etc/capgate/capgate.yaml", []byte("mine"), 0o600))
	command(t, "sh", "-c", line)
	kept, err := os.ReadFile(root + "/etc/capgate/capgate.yaml.~1~")
	if err != nil || string(kept) != "mine" {
		t.Errorf("the former configuration: %v %q", err, kept)
	}
	secret := root + "/etc/capgate/secrets/secret.key"
	check.Must(t, os.WriteFile(secret, []byte("mine"), 0o600))
	if err := exec.CommandContext(t.Context(), "sh", "-c", line).Run(); err == nil { //nolint:gosec // of init
		t.Error("it overwrites the files of a gateway")
	}
	if got, err := os.ReadFile(secret); err != nil || string(got) != "mine" {
		t.Errorf("the secret is overwritten: %v", err)
	}
}

// TestInitForSystemd: the unit is valid, and its gateway works with the configuration, with an embedded store and with
// a Redis that has the user of the files.
func TestInitForSystemd(t *testing.T) {
	t.Parallel()
	for name, flags := range map[string][]string{"embedded": {},
		"redis": {"--tls", "self-signed", "--redis", "redis://capgate@127.0.0.1:6379"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, out := initialize(t, "systemd", flags...)
			unit := initialized(t, dir+"/etc/systemd/system/capgate.service", "/usr/local/bin/capgate", capgate)
			if out, errs := command(t, "systemd-analyze", "verify", unit); out+errs != "" {
				t.Errorf("%s%s", out, errs)
			}
			checkCopied(t, dir, out)
			logs, config := t.TempDir(), dir+"/etc/capgate/capgate.yaml"
			pairs := []string{"/etc/capgate/", dir + "/etc/capgate/", "/var/log/capgate", logs}
			want := []string{"tls", "redis", "redis.wait_replicas"}
			if name == "redis" {
				want = []string{"redis.password_file", "redis.wait_replicas"}
			}
			if got := missing(t, initialized(t, config, pairs...), out); !slices.Equal(got, want) {
				t.Errorf("production lacks %v, want %v", got, want)
			}
			pairs = append(pairs, "127.0.0.1:50051", weatherAlone(t), `":8080"`, "127.0.0.1:0", "127.0.0.1:8081",
				"127.0.0.1:0")
			if name == "redis" {
				pairs = append(pairs, "127.0.0.1:6379", startRedis(t, dir+"/redis-users.acl"))
			}
			log := start(t, capgate, "serve", withOperators, "--config", initialized(t, config, pairs...)).
				wait(t, `"msg":"serving"`)
			public, scheme := attribute(log, "listen"), "http://"
			args := []string{"--addr"}
			if name == "redis" {
				scheme = "https://"
				args = []string{"--tls-ca", dir + "/etc/capgate/tls.crt", "--addr"}
			}
			worked(t, dir, attribute(log, "admin"), append(args, scheme+public)...)
			audit, err := os.ReadFile(logs + "/audit.log")
			if err != nil || !strings.Contains(string(audit), "weather") {
				t.Errorf("the audit log: %v %s", err, audit)
			}
		})
	}
}
