package deploy

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/capgate/capgate/internal/testkit/check"
)

// TestSystemd: systemd accepts the unit, and the unit restricts the gateway's permissions.
func TestSystemd(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("systemd/capgate.service")
	check.Must(t, err)
	file := filepath.Join(t.TempDir(), "capgate.service")
	check.Must(t, os.WriteFile(file, []byte(replace(t, string(text), "/usr/local/bin/capgate", capgate)), 0o600))
	if out, errs := command(t, "systemd-analyze", "verify", file); out+errs != "" {
		t.Errorf("%s%s", out, errs)
	}
	for _, want := range []string{"\nLogsDirectory=capgate\n", "\nExecReload=/bin/kill -HUP $MAINPID\n"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("there is no %q", want)
		}
	}
	if names := ownNames(string(text)); len(names) != 0 {
		t.Errorf("systemd rejects a dynamic user with the name of a group: %v", names)
	}
	if strings.Contains(string(text), "\nProcSubset=pid") {
		t.Error("process_start_time_seconds and the machine's memory are inaccessible")
	}
	// The exposure level: 0 is the most restricted, 100 the least.
	command(t, "systemd-analyze", "security", "--offline=true", "--no-pager", "--threshold=20", file)
}

// ownNames returns the groups of a unit with the name of its dynamic user, which systemd rejects with 217/USER. Without
// User, the user has the name of the unit.
func ownNames(unit string) (groups []string) {
	user := "capgate"
	for line := range strings.Lines(unit) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		switch name {
		case "User":
			user = value
		case "Group", "SupplementaryGroups":
			groups = append(groups, strings.Fields(value)...)
		}
	}
	return slices.DeleteFunc(groups, func(group string) bool { return group != user })
}

// TestGroupsOfTheUnitAreMade: the package and the steps of capgate init create the unit's group, and no group with the
// name of its user.
func TestGroupsOfTheUnitAreMade(t *testing.T) {
	t.Parallel()
	unit, err := os.ReadFile("systemd/capgate.service")
	check.Must(t, err)
	_, group, _ := strings.Cut(string(unit), "\nSupplementaryGroups=")
	group, _, _ = strings.Cut(group, "\n")
	script, err := os.ReadFile("packages/postinstall.sh")
	check.Must(t, err)
	_, steps := initialize(t, "systemd")
	for name, text := range map[string]string{"postinstall.sh": string(script), "init": steps} {
		made := regexp.MustCompile(`groupadd [a-z -]*?(\S+)\n`).FindAllStringSubmatch(text, -1)
		if len(made) != 1 || made[0][1] != group {
			t.Errorf("%s creates the groups %q, and the unit has %s", name, made, group)
		}
	}
}
