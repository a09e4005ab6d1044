package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// flagsOf are the flags that each verb heeds, besides those that say where the gateway is.
var flagsOf = map[string]string{
	"policy list": "user agent tenant global candidate", "policy rm": "user agent tenant global candidate",
	"policy set": "user agent tenant global candidate force", "policy explain": "user agent tenant candidate force",
	"approvals list":  "tenant user agent capability tool state",
	"approvals watch": "tenant user agent capability tool old",
	"approvals show":  "tenant", "approvals approve": "tenant comment remember by",
	"approvals deny": "tenant comment remember by",
	"tenants list":   "", "tenants show": "", "tenants create": "name capabilities limits disabled",
	"tenants set": "name capabilities limits disabled etag", "tenants rm": "force etag",
	"keys create": "name scopes asserts expires out", "keys list": "", "keys rotate": "grace out", "keys revoke": "",
	"keys new":     "name scopes asserts expires out pepper-file",
	"catalog list": "", "catalog show": "", "catalog accept": "", "catalog discover": "",
	"engines list": "", "engines status": "", "engines sessions": "", "engines history": "",
	"engines send": "session mode",
}

// words are the words that a verb wants, and values what its flags take.
func wordsOf(verb string) []string {
	n := map[string]int{
		"policy set": 3, "policy rm": 2, "policy explain": 2, "approvals show": 1, "approvals approve": 1,
		"approvals deny": 1,
		"tenants show":   1, "tenants create": 1, "tenants set": 1, "tenants rm": 1, "keys create": 1, "keys list": 1,
		"keys rotate": 2,
		"keys revoke": 2, "catalog show": 1, "catalog accept": 3, "catalog discover": 1, "engines status": 1,
		"engines sessions": 1,
		"engines history":  2, "engines send": 2,
	}[verb]
	return append(strings.Fields(verb), []string{"caps", "echo", "allow"}[:n]...)
}

func flagOf(name string, dir string) string {
	value := map[string]string{
		"limits": "{}", "expires": "2037-01-31T00:00:00Z", "grace": "1h", "mode": "OTR", "scopes": "read", "asserts": "user",
		"out": filepath.Join(dir, "out"), "pepper-file": filepath.Join(dir, "pepper"),
		"tls-ca": filepath.Join(dir, "ca"), "key-file": filepath.Join(dir, "key"),
		"global": "true", "candidate": "true", "force": "true", "disabled": "true", "old": "true", "tls": "true",
		"admin": "127.0.0.1:1", "addr": "127.0.0.1:1",
	}[name]
	if value == "" {
		value = "x"
	}
	return "--" + name + "=" + value
}

// TestNoFlagIsIgnored: each verb refuses the flags that mean nothing to it, of all that its command has, and takes the
// others. Nothing listens where the commands are sent: a line that is understood ends with that.
func TestNoFlagIsIgnored(t *testing.T) {
	t.Parallel()
	for _, command := range []string{"policy", "approvals", "tenants", "keys", "catalog", "engines"} {
		_, help, _ := inProcess(t, command, "-h")
		var flags, verbs []string
		for _, m := range regexp.MustCompile(`(?m)^  -([a-z-]+)`).FindAllStringSubmatch(help, -1) {
			flags = append(flags, m[1])
		}
		for _, m := range regexp.MustCompile(`(?m)capgate `+command+
			` ([a-z]+) ?.*$`).FindAllStringSubmatch(strings.SplitN(help, "\n\n", 2)[0], -1) {
			verbs = append(verbs, command+" "+m[1])
		}
		if len(verbs) == 0 || len(flags) == 0 {
			t.Fatalf("%s has no verbs, or no flags:\n%s", command, help)
		}
		for _, verb := range verbs {
			heeded, listed := flagsOf[verb]
			if !listed {
				t.Errorf("which flags does capgate %s heed?", verb)
			}
			for _, name := range flags {
				checkFlag(t, verb, name, slices.Contains(strings.Fields(heeded), name))
			}
		}
	}
}

// checkFlag gives a verb one flag, besides those that it needs.
func checkFlag(t *testing.T, verb, name string, heeded bool) {
	t.Helper()
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "pepper"), []byte("0123456789abcdef0123456789abcdef"), 0o600))
	reach := map[bool]string{true: "addr", false: "admin"}[strings.HasPrefix(verb, "engines ")]
	args := append(wordsOf(verb), flagOf(name, dir))
	switch {
	case verb == "tenants create" && name != "capabilities":
		args = append(args, "--capabilities=*")
	case verb == "tenants set" && name == "etag":
		args = append(args, "--name=x")
	}
	isReach := slices.Contains([]string{"admin", "addr", "tls", "tls-ca", "key-file"}, name)
	if verb != "keys new" && name != reach {
		args = append(args, flagOf(reach, dir))
	}
	exit, out, errs := inProcess(t, args...)
	switch {
	case isReach && verb != "keys new":
		if strings.Contains(errs, "takes no") {
			t.Errorf("capgate %s: %d %s", strings.Join(args, " "), exit, errs)
		}
	case heeded && exit == exitUsage:
		t.Errorf("capgate %s: %s", strings.Join(args, " "), errs)
	case !heeded && (exit != exitUsage || !strings.Contains(errs, name) && !strings.Contains(errs, "is about a call")):
		t.Errorf("capgate %s ignores --%s: %d %s%s", verb, name, exit, out, errs)
	}
}

// inProcess runs a command in this process.
func inProcess(t *testing.T, args ...string) (exit int, stdout, stderr string) {
	t.Helper()
	var out, errs strings.Builder
	exit = run(t.Context(), args, stdio{strings.NewReader(""), &out, &errs})
	return exit, out.String(), errs.String()
}

// TestFlagsThatGoTogether: what a flag depends on is needed, in commands without verbs.
func TestFlagsThatGoTogether(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"status --every 1s":                             "--every requires --watch",
		"status --tenants weather":                      "takes no CAPABILITY",
		"drain --backend h:1 --undo --force":            "--undo takes neither --force",
		"drain --backend h:1 --undo --timeout 1s":       "--undo takes neither --force nor --timeout",
		"invoke --wait-timeout 1s caps echo":            "--wait-timeout requires --wait",
		"conform --args {} 127.0.0.1:1":                 "--args requires --tool",
		"register --capability c --addr h:1 --tenant x": "--tenant requires --session",
		"check --config x y":                            "cannot be checked together",
	} {
		if exit, _, errs := inProcess(t, strings.Fields(line)...); exit != exitUsage || !strings.Contains(errs, want) {
			t.Errorf("capgate %s: %d %s", line, exit, errs)
		}
	}
}

// TestKeysNewSaysWhatItIsTold: what the flags say of a key is in the line for the configuration, which is taken.
func TestKeysNewSaysWhatItIsTold(t *testing.T) {
	t.Parallel()
	out := filepath.Join(t.TempDir(), "key")
	exit, stdout, errs := inProcess(t, "keys", "new", "--name", `Ann's "bot": #1`, "--scopes", "invoke,approve",
		"--asserts", "user", "--expires", "2037-01-31T01:00:00+01:00", "--out", out)
	_, entry, _ := strings.Cut(errs, "\n- ")
	if exit != 0 || stdout != "" || !strings.Contains(entry,
		`name: "Ann's \"bot\": #1", scopes: [invoke, approve], asserts: [user], expires: 2037-01-31T00:00:00Z}`) {
		t.Fatalf("%d %s%s", exit, stdout, errs)
	}
	key, err := os.ReadFile(out)
	must(t, err)
	if info, err := os.Stat(out); err != nil || info.Mode().Perm() != 0o600 || !strings.HasPrefix(string(key), "cg_") {
		t.Errorf("%v %v", info, err)
	}
	file := writeConfig(t, configOf("tenants: [{id: acme, capabilities: ['*'], keys: ["+entry+"]}]", "127.0.0.1:1"))
	if exit, _, errs := inProcess(t, "check", "--config", file); exit != 0 {
		t.Errorf("%d %s", exit, errs)
	}
	for _, wrong := range [][]string{{"--scopes", "fly"}, {"--asserts", "me"}, {"--expires", "soon"},
		{"--name", "\xff"}, {"--out", out}} {
		if exit, stdout, errs := inProcess(t, append([]string{"keys", "new"}, wrong...)...); exit == 0 ||
			stdout != "" || !strings.Contains(errs, wrong[0]) {
			t.Errorf("%q: %d %s%s", wrong, exit, stdout, errs)
		}
	}
}
