package cli

import (
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/capgate/capgate/internal/initfiles"
	"github.com/capgate/capgate/internal/testkit/check"
)

// production returns the example of docs/run/production.md, with the files that it names.
func production(t *testing.T) (config string) {
	t.Helper()
	const page = "docs/run/production.md"
	dir := t.TempDir()
	cert, key := certificate(t, 1)
	for name, text := range map[string]string{"tls.crt": cert, "tls.key": key, "redis-password": "word of the tests",
		"secret": base64.StdEncoding.EncodeToString([]byte(strings.Repeat("s", 32)))} {
		check.Must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	for _, b := range blocks(t, page) {
		if b.info == "yaml file=capgate.yaml" {
			return strings.NewReplacer("/etc/capgate", dir, "/var/log/capgate", dir).Replace(b.text)
		}
	}
	t.Fatalf("%s has no configuration", page)
	return ""
}

// TestProduction: the example of the page meets every requirement, and without one of its parts exactly the requirement
// of that part is missing. The page lists each requirement.
func TestProduction(t *testing.T) {
	t.Parallel()
	example, page := production(t), read(t, "docs/run/production.md")
	exit, out, errs := runProgram(t, nil, "check", "--production", writeConfig(t, example))
	if exit != 0 || !strings.Contains(out, "12 of 12 requirements of production met") {
		t.Errorf("the example: %d %s%s", exit, out, errs)
	}
	line := func(begin string) string {
		_, rest, _ := strings.Cut(example, begin)
		rest, _, _ = strings.Cut(rest, "\n")
		return begin + rest + "\n"
	}
	for field, change := range map[string][2]string{
		"tls":     {line("tls: "), ""},
		"tenants": {"", ""},
		"listeners": {"policies: {}", "policies: {}\nlisteners: [{address: ':9000', open: true, tenant: acme, tls: " +
			strings.TrimPrefix(strings.TrimSpace(line("tls: ")), "tls: ") + "}]"},
		"redis":               {"", ""},
		"redis.password_file": {line("  password_file: "), ""},
		"redis.wait_replicas": {line("  wait_replicas: "), ""},
		"secret_file":         {line("secret_file: "), ""},
		"operators":           {"    - {issuer: login, user: ann, roles: [admin]}", "    []"},
		"limits":              {line("\nlimits: "), ""},
		"audit":               {line("audit: "), ""},
		"drain.delay":         {"policies: {}", "policies: {}\ndrain: {delay: 0s}"},
		"overload.max_memory": {"policies: {}", "policies: {}\noverload: {max_memory: 900GiB}"},
	} {
		if !strings.Contains(page, "| `"+field+"` |") {
			t.Errorf("docs/run/production.md has no row for %s", field)
		}
		if change[0] == "" {
			continue // below, with others
		}
		file := writeConfig(t, strings.Replace(example, change[0], change[1], 1))
		exit, out, errs := runProgram(t, nil, "check", "--production", file)
		problems := strings.Count(errs, file+": ") - strings.Count(errs, file+": warning: ")
		if exit != exitRefused || problems != 1 || !strings.Contains(errs, file+": "+field+": ") {
			t.Errorf("without %s: %d %s%s", field, exit, out, errs)
		}
	}
	file := writeConfig(t, strings.Replace(example, line("tls: "), "trusted_proxies: {from: [10.0.0.1/32], hops: 1}\n"+
		"proxy_protocol: v2\n", 1))
	if exit, _, errs := runProgram(t, nil, "check", "--production", file); exit != exitRefused ||
		!strings.Contains(errs, file+": tls: ") {
		t.Errorf("a proxy that passes connections on: %d %s", exit, errs)
	}
	for _, own := range []string{"{messages: 5}", "{per_day: 5, shadow: true}"} {
		file := writeConfig(t, strings.Replace(example, "{calls_per_second: 20}", own, 1))
		if exit, _, errs := runProgram(t, nil, "check", "--production", file); exit != exitRefused ||
			!strings.Contains(errs, "limits: the tenant globex") {
			t.Errorf("limits of a tenant: %d %s", exit, errs)
		}
	}
	file = writeConfig(t, initfiles.Example)
	exit, out, errs = runProgram(t, nil, "check", "--production", "-o", "json", file)
	for _, field := range []string{"tls", "tenants", "redis", "operators", "audit"} {
		if !strings.Contains(out, `"field": "`+field+`"`) {
			t.Errorf("the first configuration: %s is not missing", field)
		}
	}
	if exit != exitRefused || !strings.Contains(out, `"ok": false`) || strings.Contains(errs, ":0:") {
		t.Errorf("the first configuration: %d %s%s", exit, out, errs)
	}
	if exit, _, errs := runProgram(t, nil, "check", file); exit != 0 {
		t.Errorf("without the flag: %d %s", exit, errs)
	}
}
