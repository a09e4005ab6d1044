package cli

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	"github.com/capgate/capgate/internal/testkit/redistest"
	docpb "github.com/capgate/capgate/proto/selu/capability"
)

// The error of a wrong address does not contain a possible password.
func TestServeWrongRedis(t *testing.T) {
	t.Parallel()
	file := configFile(t, "127.0.0.1:1", "")
	for name, env := range map[string][]string{"flag": nil, "environment": {"CAPGATE_REDIS=redis://:hush@h:x"}} {
		args := []string{"serve", "--config", file}
		if env == nil {
			args = append(args, "--redis", "redis://:hush@h:x")
		}
		exit, _, stderr := runProgram(t, env, args...)
		if exit != 2 || !strings.Contains(stderr, "redis: the address has a port") || strings.Contains(stderr, "hush") {
			t.Errorf("%s: exit status %d: %s", name, exit, stderr)
		}
	}
}

// check reads the files that redis names too.
func TestCheckRedisFiles(t *testing.T) {
	t.Parallel()
	empty := filepath.Join(t.TempDir(), "empty")
	check.Must(t, os.WriteFile(empty, nil, 0o600))
	for more, want := range map[string]string{
		"redis: {url: 'rediss://h', password_file: " + empty + "}": "redis.password_file: " + empty + " is empty",
		"redis: {url: 'rediss://h', ca_file: " + empty + "}": "redis.ca_file: " + empty +
			" contains no PEM certificate",
		"redis: {url: 'rediss://h', cert_file: /none, key_file: /none}":      "redis: /none: cannot be read",
		"redis: {url: 'redis://h', password_file: /none, server_name: none}": "are for TLS",
	} {
		exit, _, stderr := runProgram(t, nil, "check", "--config", configFile(t, "127.0.0.1:1", more))
		if exit != 1 || !strings.Contains(stderr, want) {
			t.Errorf("%s: exit status %d: %s", more, exit, stderr)
		}
	}
}

// Without Redis, the gateway reports it once, and serves.
func TestServeWithoutRedis(t *testing.T) {
	t.Parallel()
	capability := gatewaytest.NewCapability("b1")
	file := configFile(t, capability.Serve(t, call.Live).Addr, "")
	nobody := gatewaytest.Unreachable(t)
	p, public, admin := serve(t, []string{"CAPGATE_REDIS=redis://user:hush@" + nobody}, "--config", file)
	callOnce(t, dial(t, public))
	if code, body := page(t, "http://"+admin+"/readyz"); code != 200 ||
		!strings.Contains(body, `"degraded":true,"redis":"away"`) {
		t.Errorf("/readyz: %d %s", code, body)
	}
	if _, body := page(t, "http://"+admin+"/metrics"); !strings.Contains(body, "\ncapgate_redis_up 0\n") {
		t.Errorf("capgate_redis_up is not 0:\n%s", body)
	}
	p.stop(t)
	log := p.stderr.String()
	if strings.Count(log, "redis is unavailable") != 1 || strings.Contains(log, "hush") {
		t.Errorf("want one line about redis and no password:\n%s", log)
	}
}

// A changed file with the password of Redis applies.
func TestReloadRedisPassword(t *testing.T) {
	t.Parallel()
	capability := gatewaytest.NewCapability("b1")
	server := redistest.Start(t)
	password := filepath.Join(t.TempDir(), "password")
	write := func(text string) {
		t.Helper()
		check.Must(t, os.WriteFile(password, []byte(text), 0o600))
	}
	write("old")
	server.Do("CONFIG", "SET", "requirepass", "old")
	_, _, admin := serve(t, nil, "--config", configFile(t, capability.Serve(t, call.Live).Addr,
		"redis: {url: '"+server.URL()+"', timeout: 5s, password_file: "+password+"}"))
	state := func(want string) {
		t.Helper()
		waitPage(t, "http://"+admin+"/readyz", `"redis":"`+want+`"`)
	}
	state("ok")
	server.Do("CONFIG", "SET", "requirepass", "new")
	server.Do("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
	state("away")
	write("new")
	state("ok")
}

func callOnce(t *testing.T, client docpb.CapabilityClient) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), check.Patience)
	defer cancel()
	resp, err := client.Invoke(ctx, &docpb.InvokeRequest{CapabilityId: "caps", ToolName: gatewaytest.Echo,
		ArgsJson: []byte(`"a"`)})
	if err != nil || string(resp.GetResultJson()) != `"a"` {
		t.Errorf("got %v, %v", resp, err)
	}
}

// writeConfig writes a configuration file.
func writeConfig(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "capgate.yaml")
	check.Must(t, os.WriteFile(file, []byte(text), 0o600))
	return file
}

// patientRedis returns the configuration of a Redis that does not seem to be away on a busy machine; the
// embedded one without a url.
func patientRedis(url string) string {
	if url == "" {
		url = "embedded"
	}
	return "redis: {timeout: 10s, url: '" + url + "'}"
}
