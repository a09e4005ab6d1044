package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/capgate/capgate/internal/testkit/check"
)

// TestFlagsAnywhere: flags may stand before, between and after the names of commands and positional arguments.
func TestFlagsAnywhere(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"policy set caps echo allow --user ann --candidate": "policy set caps echo allow --user ann --candidate",
		"--user ann policy --candidate set caps echo allow": "policy set --user ann --candidate caps echo allow",
		"policy --admin=h:1 -o json list":                   "policy list --admin=h:1 -o json",
		"policy delete caps echo":                           `unknown command "delete"`,
		"tenants create acme --capabilities *":              "tenants create acme --capabilities *",
		"invoke --stream caps echo -":                       "invoke --stream caps echo -",
		"invoke caps -- --stream echo":                      "invoke caps -- --stream echo",
		"status -tenants":                                   "-tenants: flags have two dashes: --tenants",
		"policy -user=ann list":                             "flags have two dashes: --user=ann",
	} {
		_, arranged, err := arrange(commandTree(stdio{}), strings.Fields(line))
		got := strings.Join(arranged, " ")
		if err != nil {
			got = err.Error()
		}
		if got != want && (err == nil || !strings.Contains(got, want)) {
			t.Errorf("capgate %s: %s, want %s", line, got, want)
		}
	}
}

// TestWrongLines: the error of a wrong command line suggests what was meant, and the exit status is that of
// usage.
func TestWrongLines(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"polcy list":                        `unknown command "polcy"; did you mean "policy"`,
		"policy":                            "want accept-loss, explain, list, matrix, rm or set",
		"policy lst --user ann":             `unknown command "lst"; did you mean "list"`,
		"policy list --agnet x":             "unknown flag --agnet; did you mean --agent?",
		"policy list --force":               "it is a flag of capgate policy explain or capgate policy set",
		"policy explain caps echo --global": "it is a flag of capgate policy list",
		"invoke --address h:1 a b":          "unknown flag --address; did you mean --addr?",
		"status --admin-addr h:1":           "unknown flag --admin-addr; did you mean --admin?",
		"policy list -x":                    "unknown flag -x; the flags are --admin",
		"policy list --user":                "--user needs a value",
		"policy set caps": "TOOL is missing; write capgate policy set " +
			"CAPABILITY TOOL allow|ask|block",
		"link":                            "CLIENT is missing; it is claude-code, cursor, gemini or vscode",
		"link cursor vscode":              `unexpected argument "vscode"`,
		"policy list more":                `unexpected argument "more"`,
		"status --json":                   "write -o json",
		"status -o xml":                   `--output "xml": want table, json or yaml`,
		"status --every often":            `--every "often": want a duration, as in 30s or 5m`,
		"register caps h:1 --weight much": `--weight "much": want a whole number`,
		"status --watch=perhaps":          `--watch "perhaps": want true or false`,
		"help polcy":                      `did you mean "policy"`,
		"help policy st":                  `did you mean "set"`,
		"completion":                      "want bash, fish, powershell or zsh",
	} {
		if exit, out, errs := inProcess(t, strings.Fields(line)...); exit != exitUsage || out != "" ||
			!strings.Contains(errs, want) || !strings.Contains(errs, "\nTry: capgate") {
			t.Errorf("capgate %s: %d %s%s; want %s", line, exit, out, errs, want)
		}
	}
}

// TestEveryCommandHasHelp: help and -h describe every command equally, with flags of two dashes and exit
// statuses.
func TestEveryCommandHasHelp(t *testing.T) {
	t.Parallel()
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		path := strings.Fields(c.CommandPath())[1:]
		_, help, _ := inProcess(t, append([]string{"help"}, path...)...)
		_, flag, _ := inProcess(t, append(slices.Clone(path), "-h")...)
		if help != flag || !strings.Contains(help, "Usage: "+c.CommandPath()) ||
			!strings.Contains(help, "\nExit status: 0 ") || !strings.Contains(help, "-h, --help") {
			t.Errorf("capgate %s:\n%s\n%s", strings.Join(path, " "), help, flag)
		}
		for line := range strings.Lines(help) {
			if len([]rune(line)) > helpColumns+20 {
				t.Errorf("a long line: %s", line)
			}
		}
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(commandTree(stdio{}))
}

// TestExitStatusInDocuments: the documents describe status 3 as help does.
func TestExitStatusInDocuments(t *testing.T) {
	t.Parallel()
	if _, help, _ := inProcess(t, "invoke", "-h"); !strings.Contains(help, "; 3 "+callAway+".") {
		t.Error(help)
	}
	if numbers := [...]int{exitRefused, exitUsage, exitUnreachable}; numbers != [...]int{1, 2, 3} {
		t.Errorf("scripts know other exit statuses than %v", numbers)
	}
	for _, name := range []string{"cli.md", "install.md"} {
		text, err := os.ReadFile(filepath.Join("..", "..", "docs", "run", name))
		if err != nil || !strings.Contains(string(text), "\n| 3 | "+callAway+" |\n") {
			t.Errorf("%s: %v; text %+v", name, err, string(text))
		}
	}
}

// TestCompletion: shells complete commands, flags and the values of --output.
func TestCompletion(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"pol":              "policy\t",
		"policy |":         "explain\t",
		"policy list --ag": "--agent\t",
		"status -o |":      "json\n",
		"help keys |":      "rotate\n",
		"completion |":     "bash\t",
	} {
		args := strings.Fields(strings.ReplaceAll(line, "|", "\x00"))
		for i := range args {
			args[i] = strings.Trim(args[i], "\x00")
		}
		if exit, out, _ := inProcess(t, append([]string{"__complete"}, args...)...); exit != 0 ||
			!strings.Contains(out, want) {
			t.Errorf("%s: %d %q, want %q", line, exit, out, want)
		}
	}
	for _, shell := range []string{"bash", "zsh", "fish"} {
		if exit, out, _ := inProcess(t, "completion", shell); exit != 0 || !strings.Contains(out, "__complete") {
			t.Errorf("%s: %d %s", shell, exit, out)
		}
	}
}

// inProcess runs a command in this process.
func inProcess(t *testing.T, args ...string) (exit int, stdout, stderr string) {
	t.Helper()
	var out, errs strings.Builder
	exit = run(t.Context(), args, stdio{strings.NewReader(""), &out, &errs})
	return exit, out.String(), errs.String()
}

// TestFlagsThatGoTogether: a flag that another depends on is required, in commands without verbs.
func TestFlagsThatGoTogether(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"status --every 1s":                  "--every requires --watch",
		"status --tenants weather":           "takes no CAPABILITY",
		"drain h:1 --timeout -1s":            "--timeout must not be negative",
		"invoke --wait-timeout 1s caps echo": "--wait-timeout requires --wait",
		"conform --args {} 127.0.0.1:1":      "--args requires --tool",
		"register c h:1 --tenant x":          "--tenant requires --session",
		"check --config x y":                 "want FILE or --config, not both",
	} {
		if exit, _, errs := inProcess(t, strings.Fields(line)...); exit != exitUsage || !strings.Contains(errs, want) {
			t.Errorf("capgate %s: %d %s", line, exit, errs)
		}
	}
}

// TestKeysNewPrintsItsSettings: the line for the configuration has all settings of the flags, and is valid.
func TestKeysNewPrintsItsSettings(t *testing.T) {
	t.Parallel()
	out := filepath.Join(t.TempDir(), "key")
	exit, stdout, errs := inProcess(t, "keys", "new", "--name", `Ann's "bot": #1`, "--scopes", "invoke,approve",
		"--asserts", "user", "--expires", "2037-01-31T01:00:00+01:00", "--out", out)
	_, entry, _ := strings.Cut(errs, "\n- ")
	if exit != 0 || stdout != "" || !strings.Contains(entry,
		`name: "Ann's \"bot\": #1", scopes: [invoke, approve], asserts: [user], expires: 2037-01-31T00:00:00Z}`) {
		t.Fatalf("%d %s%s; entry %+v", exit, stdout, errs, entry)
	}
	key, err := os.ReadFile(out)
	check.Must(t, err)
	if info, err := os.Stat(out); err != nil || info.Mode().Perm() != 0o600 || !strings.HasPrefix(string(key), "cg_") {
		t.Errorf("%v %v; key %+v", info, err, string(key))
	}
	file := writeConfig(t, configOf("tenants: [{id: acme, capabilities: ['*'], keys: ["+entry+"]}]", "127.0.0.1:1"))
	if exit, _, errs := inProcess(t, "check", "--config", file); exit != 0 {
		t.Errorf("got %d %s", exit, errs)
	}
	exit, _, errs = inProcess(t, "keys", "new", "--roles", "operator,approver", "--name", "deploy")
	comment, entry, _ := strings.Cut(errs, "\n- ")
	if exit != 0 || comment != "# of operators.keys in the configuration:" ||
		!strings.Contains(entry, `name: "deploy", roles: [operator, approver]}`) {
		t.Fatalf("%d %s; comment %+v; entry %+v", exit, errs, comment, entry)
	}
	file = writeConfig(t, configOf("operators: {keys: ["+entry+"]}", "127.0.0.1:1"))
	if exit, _, errs := inProcess(t, "check", "--config", file); exit != 0 {
		t.Errorf("got %d %s", exit, errs)
	}
	var made configuredKey // for programs
	if exit, stdout, errs = inProcess(t, "keys", "new", "--scopes", "read", "-o", "json"); exit != 0 || errs != "" ||
		json.Unmarshal([]byte(stdout), &made) != nil || !strings.HasPrefix(made.Credential, "cg_"+made.Entry.ID+"_") ||
		!slices.Equal(made.Entry.Scopes, []string{"read"}) || made.Entry.Hash == "" {
		t.Errorf("%d %s%s; made %+v", exit, stdout, errs, made)
	}
	if exit, stdout, errs = inProcess(t, "keys", "new", "--out", out+".2", "-o", "yaml"); exit != 0 || errs != "" ||
		!strings.HasPrefix(stdout, "entry:\n") || strings.Contains(stdout, "cg_") {
		t.Errorf("%d %s%s", exit, stdout, errs)
	}
	for _, wrong := range [][]string{{"--roles", "king"}, {"--roles", "admin", "--scopes", "read"}, {"--scopes", "fly"},
		{"--asserts", "me"}, {"--expires", "soon"},
		{"--name", "\xff"}, {"--out", out}} {
		if exit, stdout, errs := inProcess(t, append([]string{"keys", "new"}, wrong...)...); exit == 0 ||
			stdout != "" || !strings.Contains(errs, wrong[0]) {
			t.Errorf("%q: %d %s%s", wrong, exit, stdout, errs)
		}
	}
}
