package cli

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/clienttest"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	docpb "github.com/capgate/capgate/proto/selu/capability"
)

// makeKey creates a key with capgate; entry is its line for the configuration.
func makeKey(t *testing.T, args ...string) (key, entry string) {
	t.Helper()
	exit, stdout, stderr := runProgram(t, nil, append([]string{"keys", "new"}, args...)...)
	_, entry, ok := strings.Cut(stderr, "\n- ")
	if key = strings.TrimSpace(stdout); exit != 0 || !ok || strings.Contains(stderr, key[20:]) {
		t.Fatal(exit, stderr, ok)
	}
	return key, strings.TrimSpace(entry)
}

// answerTo calls a tool with a credential, and returns OK, the reason of the rejection, or the code if it has
// none.
func answerTo(t *testing.T, client docpb.CapabilityClient, credential string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), check.Patience)
	defer cancel()
	_, err := client.Invoke(metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+credential),
		&docpb.InvokeRequest{CapabilityId: "caps", ToolName: gatewaytest.Echo, ArgsJson: []byte("{}")})
	if reason := clienttest.Reason(err); reason != "" {
		return reason
	}
	return status.Code(err).String()
}

// becomes waits until an answer changes from before to after. If both are the same, it must be that at once.
func becomes(t *testing.T, what string, ask func() string, before, after string) {
	t.Helper()
	check.Until(t, what+" to be "+after, func() (bool, string) {
		got := ask()
		if got != before && got != after {
			t.Fatalf("%s: %s, want %s, and then %s", what, got, before, after)
		}
		return got == after, got
	})
}

// TestKeysOfTheFile: keys are added, changed and removed with the file and those that it names, while calls
// run, and turning keys on or off needs a restart.
func TestKeysOfTheFile(t *testing.T) {
	t.Parallel()
	backend := gatewaytest.NewCapability("one").Serve(t, call.Doc).Addr
	pepper := filepath.Join(t.TempDir(), "pepper")
	check.Must(t, os.WriteFile(pepper, []byte("0123456789abcdef0123456789abcdef\n"), 0o600))
	plain, ofPlain := makeKey(t)
	peppered, ofPeppered := makeKey(t, "--pepper-file", pepper)
	var files configMap
	put := func(text string) {
		files.put(t, map[string]string{"capgate.yaml": configOf(text, backend), "short": "short",
			"pepper": "0123456789abcdef0123456789abcdef\r\n", "hash": "hunter2"})
	}
	put("tenants: [{id: acme, capabilities: ['*'], keys: [" + ofPlain + "]}]")
	p, public, admin := serve(t, nil, "--config", files.file("capgate.yaml"))
	change := func(text string) { // at once: another test covers that the gateway notices the change itself
		put(text)
		p.signal(t, syscall.SIGHUP)
	}
	client := dial(t, public)
	wait := func(key, before, after string) { // a change of the file has no event of its own
		t.Helper()
		becomes(t, "the answer to "+key[:20], func() string { return answerTo(t, client, key) }, before, after)
	}
	stays := func(key, answer string) {
		t.Helper()
		wait(key, answer, answer)
	}
	p.stderr.wait(t, p, `"msg":"callers need a credential","tenants":1,"keys":1`)
	stays(plain, "OK")
	stays(peppered, "CREDENTIAL_INVALID")
	invokeByKey(t, public, plain)

	change("pepper_file: " + files.file("pepper") + "\ntenants: [{id: acme, capabilities: ['*'], keys: [" + ofPlain +
		", " + ofPeppered + "]}]")
	wait(peppered, "CREDENTIAL_INVALID", "OK")
	stays(plain, "OK")

	for text, want := range map[string]string{
		"tenants: [{id: acme, capabilities: ['*'], keys: [" + ofPeppered +
			"]}]": "there is no pepper_file",
		"pepper_file: " + files.file("short") +
			"\ntenants: []": "fewer than 16 bytes",
		"pepper_file: /nowhere\ntenants: []": "pepper_file: /nowhere: cannot be read",
		"tenants: [{id: acme, capabilities: ['*'], keys: [{id: abcdefghijklmnop, hash_file: " + files.file("hash") +
			"}]}]": "contains no hash",
		"tenants: [{id: acme, capabilities: ['*'], keys: [{id: abcdefghijklmnop, hash_file: " +
			"/nowhere}]}]": "hash_file: /nowhere: cannot be read",
		"tenants: [{id: acme, capabilities: ['*'], keys: [{id: abcdefghijklmnop, hash: " + plain[20:] +
			", name: 'sixth'}]}]": "keys[0].hash: is not a hash",
	} {
		change(text)
		waitPage(t, "http://"+admin+"/readyz", want)
	}
	stays(plain, "OK")
	stays(peppered, "OK")

	change("tenants: [{id: acme, capabilities: [other], keys: [" + ofPlain + "]}]")
	wait(plain, "OK", "CAPABILITY_UNKNOWN")
	change("tenants: [{id: acme, capabilities: ['c?ps'], keys: [" + ofPlain + "]}]")
	wait(plain, "CAPABILITY_UNKNOWN", "OK")

	change("tenants: []")
	wait(plain, "OK", "CREDENTIAL_INVALID")
	stays(peppered, "CREDENTIAL_INVALID")
	change("")
	waitPage(t, "http://"+admin+"/readyz", `"needs_restart":["tenants"]`)
	stays(plain, "CREDENTIAL_INVALID")
	p.stop(t)
	for _, secret := range []string{plain[20:], peppered[20:], "hunter2", "0123456789abcdef"} {
		if strings.Contains(p.stderr.String(), secret) {
			t.Errorf("the log has %s", secret)
		}
	}
}

// invokeByKey runs capgate invoke with a key.
func invokeByKey(t *testing.T, public, key string) {
	t.Helper()
	good, bad := filepath.Join(t.TempDir(), "good"), filepath.Join(t.TempDir(), "bad")
	check.Must(t, os.WriteFile(good, []byte(key+"\n"), 0o600))
	check.Must(t, os.WriteFile(bad, []byte(key+key), 0o600))
	for name, test := range map[string]struct {
		env, args []string
		exit      int
		err       string
	}{
		"none":           {nil, nil, exitRefused, "give it with --key-file, or in CAPGATE_KEY (CREDENTIAL_MISSING)"},
		"of a file":      {nil, []string{"--key-file", good}, 0, ""},
		"streamed":       {nil, []string{"--key-file", good, "--stream"}, 0, ""},
		"of the shell":   {[]string{"CAPGATE_KEY=" + key}, nil, 0, ""},
		"file first":     {[]string{"CAPGATE_KEY=hunter2"}, []string{"--key-file", good}, 0, ""},
		"none in a file": {nil, []string{"--key-file", bad}, exitUsage, "contains neither an API key"},
		"none in shell": {[]string{"CAPGATE_KEY=" + key + key}, nil, exitUsage,
			"CAPGATE_KEY contains neither an API key"},
		"an empty file": {[]string{"CAPGATE_KEY=" + key}, []string{"--key-file", os.DevNull}, exitUsage, "is empty"},
		"no file":       {nil, []string{"--key-file", "/nowhere"}, exitUsage, "/nowhere"},
	} {
		exit, _, stderr := runProgram(t, test.env,
			append([]string{"invoke", "--addr", public, "caps", gatewaytest.Echo}, test.args...)...)
		if exit != test.exit || !strings.Contains(stderr, test.err) || strings.Contains(stderr, key[20:]) {
			t.Errorf("%s: %d, %q", name, exit, stderr)
		}
	}
}

func TestKeysProgram(t *testing.T) {
	t.Parallel()
	short := filepath.Join(t.TempDir(), "short")
	check.Must(t, os.WriteFile(short, []byte("short"), 0o600))
	for name, test := range map[string]struct {
		args []string
		exit int
		err  string
	}{
		"nothing":      {nil, 2, "want create, list, new, revoke or rotate"},
		"another word": {[]string{"old"}, 2, "unknown command \"old\""},
		"two":          {[]string{"new", "new"}, 2, "unexpected argument \"new\""},
		"a whole key": {[]string{"revoke", "acme", "cg_abcdefghijklmnop_abcdefghijklmnopqrstuvwxyz234567"}, 2,
			"want the key's id, abcdefghijklmnop, not the key itself"},
		"a bad time": {[]string{"create", "acme", "--expires", "soon"}, 2, "--expires: want a time"},
		"a bad place": {[]string{"create", "acme", "--out", "/nowhere/key"}, 2,
			"--out: /nowhere/key cannot be created"},
		"short pepper": {[]string{"new", "--pepper-file", short}, 1, "fewer than 16 bytes"},
		"no pepper":    {[]string{"new", "--pepper-file", "/nowhere"}, 1, "/nowhere"},
	} {
		if exit, out, stderr := runProgram(t, nil, append([]string{"keys"}, test.args...)...); exit != test.exit ||
			out != "" || !strings.Contains(stderr, test.err) {
			t.Errorf("%s: %d, %q, %q", name, exit, out, stderr)
		}
	}
}
