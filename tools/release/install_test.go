package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// A user has a home directory and installs from a server of releases.
type user struct {
	home     string
	releases string // directory that the server serves
	address  string
	script   string
	env      []string // of install.sh, in addition to the tests' environment
}

// newUser returns a user of a server with a copy of the release.
func newUser(t *testing.T) *user {
	t.Helper()
	dir, err := os.MkdirTemp(scratch, "user")
	must(t, err)
	u := &user{home: filepath.Join(dir, "home"), releases: filepath.Join(dir, "releases")}
	at := filepath.Join(u.releases, "download", testVersion)
	must(t, os.MkdirAll(at, 0o755))
	must(t, os.MkdirAll(u.home, 0o755))
	archive := (&release{version: testVersion}).archive(platform{runtime.GOOS, runtime.GOARCH})
	for _, name := range []string{archive, checksumsFile, signatureFile, installerFile} {
		must(t, os.WriteFile(filepath.Join(at, name), read(t, made(t), name), 0o644))
	}
	server := httptest.NewServer(http.FileServer(http.Dir(u.releases)))
	t.Cleanup(server.Close)
	u.address, u.script = server.URL, filepath.Join(at, installerFile)
	if os.Geteuid() == 0 {
		must(t, os.Chmod(scratch, 0o755))
		must(t, os.Chmod(dir, 0o755))
		must(t, os.Chown(u.home, 65532, 65532))
	}
	return u
}

// install runs install.sh as an ordinary user, and returns its output.
func (u *user) install(t *testing.T, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sh", append([]string{u.script}, args...)...)
	cmd.Dir = u.home
	cmd.Env = append(append(cmd.Environ(), "HOME="+u.home, "CAPGATE_RELEASES="+u.address, "TMPDIR="+u.home), u.env...)
	if os.Geteuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65532, Gid: 65532}}
	}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// refused checks that an installation fails with a message and leaves the home unchanged.
func (u *user) refused(t *testing.T, want string, args ...string) {
	t.Helper()
	before := fileNames(t, u.home)
	if out, err := u.install(t, args...); err == nil || !strings.Contains(out, want) {
		t.Errorf("%v %s, not %s", err, out, want)
	}
	if after := fileNames(t, u.home); !slices.Equal(before, after) {
		t.Errorf("%q left %v", want, after)
	}
}

// TestInstall: a user without privileges installs, runs, upgrades and uninstalls capgate. Other files stay.
func TestInstall(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	own := filepath.Join(u.home, ".local/bin/own")
	shell(t, `mkdir -p "$1/.local/bin" && touch "$2" && chown -R --reference="$1" "$1"`, u.home, own)
	out, err := u.install(t)
	if err != nil || !strings.Contains(out, "export PATH=") {
		t.Fatalf("%v\n%s", err, out)
	}
	program := filepath.Join(u.home, ".local/bin/capgate")
	if got := command(t, exec.Command(program, "version")); !strings.HasPrefix(got, "capgate "+testVersion+"\n") {
		t.Errorf("version: %s", got)
	}
	man := command(t, exec.Command("man", "--manpath", filepath.Join(u.home, ".local/share/man"), "5", "capgate.yaml"))
	if !strings.Contains(man, "max_connection_age") {
		t.Errorf("man: %.300s", man)
	}
	u.publish(t, "v0.2.0")
	if out, err := u.install(t, "--version", "v0.2.0"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if got := command(t, exec.Command(program, "version")); got != "capgate v0.2.0\n" {
		t.Errorf("version after the upgrade: %s", got)
	}
	if out, err := u.install(t, "--uninstall"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if left := fileNames(t, u.home); !slices.Equal(left, []string{".local/bin/own"}) {
		t.Errorf("uninstalled, there are %v", left)
	}
	u.refused(t, "nothing is installed", "--uninstall")
}

// TestInstallKeepsItsList: an upgrade removes files that the new release no longer has. An interrupted installation can
// be uninstalled, also by the repository's script, which has no version.
func TestInstallKeepsItsList(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	u.publish(t, testVersion)
	if out, err := u.install(t); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	old := filepath.Join(u.home, ".local/share/capgate/former")
	shell(t, `touch "$1" && echo share/capgate/former >>"$2/.local/share/capgate/installed"`, old, u.home)
	if out, err := u.install(t); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if _, err := os.Stat(old); err == nil {
		t.Error("the upgrade left a file that the new release does not have")
	}
	list := read(t, filepath.Join(u.home, ".local/share/capgate"), "installed")
	if names := strings.Fields(string(list)); len(names) != 7 || slices.Contains(names, "share/capgate/former") {
		t.Errorf("the list is %v", names)
	}
	if out, err := u.install(t, "--uninstall"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	shell(t, `rm -r "$1/.local" && mkdir -p "$1/.local/share/man" && touch "$1/.local/share/man/man5" &&
		chown -R --reference="$1" "$1"`, u.home) // a file in place of a directory
	if out, err := u.install(t); err == nil {
		t.Fatalf("installed below a file:\n%s", out)
	}
	u.script = filepath.Join(u.releases, "unfilled.sh")
	must(t, os.WriteFile(u.script, read(t, "../../deploy/install", installerFile), 0o644))
	u.refused(t, "write it as v0.1.0")
	if out, err := u.install(t, "--uninstall"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if left := fileNames(t, u.home); !slices.Equal(left, []string{".local/share/man/man5"}) {
		t.Errorf("uninstalled, there are %v", left)
	}
}

// TestInstallOnOtherMachines: install.sh downloads with wget if curl is missing. Without a program for the machine, a
// downloader or HOME, it prints what to do.
func TestInstallOnOtherMachines(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	u.publish(t, testVersion) // smaller
	tools := filepath.Dir(u.home) + "/tools"
	must(t, os.Mkdir(tools, 0o755))
	const needed = "sh mktemp openssl tar gzip awk sed mkdir cp chmod mv rm rmdir grep cat uname"
	for _, name := range strings.Fields(needed) {
		path, err := exec.LookPath(name)
		must(t, err)
		must(t, os.Symlink(path, filepath.Join(tools, name)))
	}
	u.env = []string{"PATH=" + tools}
	u.refused(t, "neither curl nor wget is installed; install one of them")
	wget, err := exec.LookPath("wget")
	must(t, err)
	must(t, os.Symlink(wget, filepath.Join(tools, "wget")))
	u.refused(t, "cannot be downloaded; check the version and the network", "--version", "v9.9.9")
	if out, err := u.install(t); err != nil || !strings.Contains(out, "capgate "+testVersion+" is in ") {
		t.Fatalf("with wget: %v\n%s", err, out)
	}
	u.env = append(u.env, "HOME=")
	u.refused(t, "HOME is not set; name a directory with --dir")
	if out, err := u.install(t, "--uninstall", "--dir", filepath.Join(u.home, ".local")); err != nil {
		t.Fatalf("without HOME: %v\n%s", err, out)
	}
	must(t, os.Remove(filepath.Join(tools, "uname")))
	for name, want := range map[string]string{"SunOS": "there is no program for SunOS; build it from source",
		"Linux riscv64": "there is no program for riscv64; build it from source"} {
		system, machine, _ := strings.Cut(name, " ")
		script := "#!/bin/sh\n[ $1 = -s ] && echo " + system + " || echo " + machine + "\n"
		must(t, os.WriteFile(filepath.Join(tools, "uname"), []byte(script), 0o755))
		u.refused(t, want, "--dir", filepath.Join(u.home, "other"))
	}
}

// TestInstallVerifies: install.sh installs nothing if a signature, a checksum, a file or an argument is wrong.
func TestInstallVerifies(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	u.publish(t, testVersion) // smaller
	at := filepath.Dir(u.script)
	archive := (&release{version: testVersion}).archive(platform{runtime.GOOS, runtime.GOARCH})
	with := func(want, name string, change func([]byte) []byte) {
		t.Helper()
		content := read(t, at, name)
		must(t, os.WriteFile(filepath.Join(at, name), change(slices.Clone(content)), 0o644))
		u.refused(t, want)
		must(t, os.WriteFile(filepath.Join(at, name), content, 0o644))
	}
	with("the checksum of "+archive+" is wrong", archive, func(b []byte) []byte { b[len(b)/2] ^= 1; return b })
	with("the checksum of "+archive+" is wrong", archive, func(b []byte) []byte { return b[:len(b)/2] })
	with("the signature of checksums.txt is wrong", checksumsFile, func(b []byte) []byte { b[0] ^= 1; return b })
	with("the signature of checksums.txt is wrong", signatureFile, func([]byte) []byte {
		other := &release{out: t.TempDir()}
		other.key, _ = readKey(newKey(t, other.out))
		must(t, other.write(checksumsFile, read(t, at, checksumsFile)))
		must(t, other.makeSignatures(t.Context()))
		return read(t, other.out, signatureFile)
	})
	with("do not use this download", signatureFile, func([]byte) []byte { return []byte("<html>") })
	// Another release under the name of this one: its signature is valid, but its archive is not the listed one.
	u.publish(t, "v0.2.0")
	shell(t, `cd "$1/download" && mv v0.2.0 v0.3.0`, u.releases)
	u.refused(t, "cannot be downloaded", "--version", "v0.3.0")
	shell(t, `cd "$1/download/v0.3.0" && for f in *0.2.0*; do mv "$f" "${f/0.2.0/0.3.0}"; done`, u.releases)
	u.refused(t, "0.3.0_", "--version", "v0.3.0") // missing from checksums.txt
	u.refused(t, "cannot be downloaded", "--version", "v9.9.9")
	u.refused(t, "write it as v0.1.0", "--version", "latest")
	u.refused(t, "write it as v0.1.0", "--version", "v0/../..")
	u.refused(t, "needs a value", "--dir")
	u.refused(t, "usage:", "--frobnicate")
}

// publish signs another version on the server, in which capgate is a script that prints the version.
func (u *user) publish(t *testing.T, version string) {
	t.Helper()
	r := &release{version: version, out: filepath.Join(u.releases, "download", version), key: testKey}
	must(t, os.MkdirAll(r.out, 0o755))
	var archive bytes.Buffer
	z := gzip.NewWriter(&archive)
	w := tar.NewWriter(z)
	for _, name := range []string{"capgate", "capgate-forward", "man/capgate.1", "man/capgate.yaml.5",
		"completions/capgate.bash", "completions/_capgate", "completions/capgate.fish"} {
		script := "#!/bin/sh\necho capgate " + version + "\n"
		must(t, w.WriteHeader(&tar.Header{Name: name, Mode: 0o755, Size: int64(len(script))}))
		_, err := w.Write([]byte(script))
		must(t, err)
	}
	must(t, w.Close())
	must(t, z.Close())
	must(t, r.write(r.archive(platform{runtime.GOOS, runtime.GOARCH}), archive.Bytes()))
	must(t, r.makeChecksums(t.Context()))
	must(t, r.makeSignatures(t.Context()))
}
