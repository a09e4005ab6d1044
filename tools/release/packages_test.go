package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
)

// inSystem runs a bash script as root in a copy of this system: its changes are discarded at the end. An ordinary user
// is root in a user namespace.
func inSystem(t *testing.T, script string, args ...string) string {
	t.Helper()
	dir, err := os.MkdirTemp(scratch, "system")
	must(t, err)
	unshare := []string{"--mount", "--pid", "--fork", "--kill-child"}
	if os.Geteuid() != 0 {
		unshare = append(unshare, "--map-root-user", "--map-auto")
	}
	const enter = `mkdir "$0/changes" "$0/work" "$0/root"
		mount -t overlay overlay -o "lowerdir=/,upperdir=$0/changes,workdir=$0/work" "$0/root"
		mount --rbind /proc "$0/root/proc" && mount --rbind /dev "$0/root/dev"
		mount -t tmpfs tmpfs "$0/root/run"
		exec chroot "$0/root" bash -euo pipefail -c "$@"`
	all := append(unshare, "bash", "-euo", "pipefail", "-c", enter, dir, script, "bash")
	return command(t, exec.CommandContext(t.Context(), "unshare", append(all, args...)...))
}

// packageOf returns the package of another version with the same programs.
func packageOf(t *testing.T, version, format string) string {
	t.Helper()
	dir := t.TempDir()
	p := platform{"linux", runtime.GOARCH}
	r := &release{version: version, platforms: []platform{p}, work: filepath.Join(dir, "work"), out: dir}
	var err error
	r.source, err = filepath.Abs("../..")
	must(t, err)
	for _, name := range programs {
		must(t, os.MkdirAll(filepath.Dir(r.program(p, name)), 0o755))
		must(t, os.Symlink(filepath.Join(unpack(t), name), r.program(p, name)))
	}
	must(t, r.makeDocuments(t.Context()))
	must(t, r.preparePackages(t.Context()))
	must(t, r.makePackage(p, format))
	return r.file(r.packageName(p, format))
}

// TestPackagesOfPrereleases: the version in the package of a prerelease sorts before its release, because of "~". The
// file name has no "~", which GitHub replaces.
func TestPackagesOfPrereleases(t *testing.T) {
	t.Parallel()
	for format, script := range map[string]string{
		"deb": `dpkg-deb --field "$1" Version`,
		"rpm": `rpm --query --queryformat '%{VERSION}\n' --package "$1"`,
	} {
		file := packageOf(t, "v0.2.0-rc.1", format)
		if name := filepath.Base(file); !regexp.MustCompile(`^[0-9A-Za-z._-]+$`).MatchString(name) {
			t.Errorf("GitHub renames %s", name)
		}
		if got := shell(t, script, file); got != "0.2.0~rc.1\n" {
			t.Errorf("the %s has version %q", format, got)
		}
	}
}

// first returns the package of the release.
func first(t *testing.T, format string) string {
	t.Helper()
	r := &release{version: testVersion}
	return filepath.Join(made(t), r.packageName(platform{"linux", runtime.GOARCH}, format))
}

// installed checks an installation: the version, systemd's report on the unit, the permissions of the configuration,
// and that the unit's command serves with the permissions of the unit. $serving returns when the gateway serves.
const installed = `
	capgate version | grep -qx "capgate v0.1.0"
	capgate-forward --version
	man -w 5 capgate.yaml
	systemd-analyze verify /usr/lib/systemd/system/capgate.service 2>&1 | tee /tmp/verify
	test ! -s /tmp/verify
	stat -c "%A %U %G" /etc/capgate /etc/capgate/capgate.yaml
	capgate check /etc/capgate/capgate.yaml
	start=$(sed -n "s/^ExecStart=//p" /usr/lib/systemd/system/capgate.service)
	group=$(sed -n "s/^SupplementaryGroups=//p" /usr/lib/systemd/system/capgate.service)
	gid=$(getent group "$group" | cut -d: -f3)
	coproc serve { exec setpriv --reuid 65532 --regid 65532 --groups "$gid" --no-new-privs \
		timeout 60 $start --listen 127.0.0.1:0 --admin 127.0.0.1:0 2>&1; }
	grep -m1 "\"msg\":\"serving\"" <&"${serve[0]}"
	kill "$serve_PID"
	! setpriv --reuid 65532 --regid 65532 --clear-groups cat /etc/capgate/capgate.yaml 2>/dev/null
`

// TestDebianPackage: dpkg installs the package, whose unit is valid and whose gateway serves. An upgrade and a removal
// keep a changed configuration. A purge leaves only logs, which may be an audit log.
func TestDebianPackage(t *testing.T) {
	t.Parallel()
	out := inSystem(t, `dpkg --install "$1"`+installed+`
		echo "# mine" >>/etc/capgate/capgate.yaml
		dpkg --install "$2" </dev/null
		dpkg-query --show capgate
		tail -n1 /etc/capgate/capgate.yaml
		dpkg --remove capgate
		test ! -e /usr/bin/capgate && tail -n1 /etc/capgate/capgate.yaml
		mkdir -p /var/log/private/capgate && echo "# record" >/var/log/private/capgate/audit.log
		dpkg --purge capgate
		test ! -e /etc/capgate && cat /var/log/private/capgate/audit.log`,
		first(t, "deb"), packageOf(t, "v0.2.0", "deb"))
	checkPackage(t, out, "capgate\t0.2.0")
	if !strings.Contains(out, "the logs in /var/log/private/capgate stay") || !strings.HasSuffix(out, "# record\n") {
		t.Errorf("a purge does not keep the audit log and say so:\n%s", out)
	}
}

// TestRPMPackage: the same with rpm. A removal renames a changed configuration and deletes an unchanged one.
func TestRPMPackage(t *testing.T) {
	t.Parallel()
	out := inSystem(t, `rpm --initdb && rpm --install --nodeps "$1"`+installed+`
		echo "# mine" >>/etc/capgate/capgate.yaml
		rpm --upgrade --nodeps "$2"
		rpm --query capgate
		tail -n1 /etc/capgate/capgate.yaml
		rpm --erase --nodeps capgate
		test ! -e /usr/bin/capgate && tail -n1 /etc/capgate/capgate.yaml.rpmsave
		rm /etc/capgate/capgate.yaml.rpmsave
		rpm --install --nodeps "$1" && rpm --erase --nodeps capgate
		test ! -e /etc/capgate/capgate.yaml && test ! -e /etc/capgate/capgate.yaml.rpmsave`,
		first(t, "rpm"), packageOf(t, "v0.2.0", "rpm"))
	checkPackage(t, out, "capgate-0.2.0-1")
}

// checkPackage checks the output of a package's test script.
func checkPackage(t *testing.T, out, upgraded string) {
	t.Helper()
	for want, times := range map[string]int{"drwxr-x--- root capgate-config": 1, "-rw-r----- root capgate-config": 1,
		"# mine\n": 2, upgraded: 1, `"msg":"serving"`: 1} {
		if strings.Count(out, want) != times {
			t.Errorf("not %d times %q in\n%s", times, want, out)
		}
	}
}
