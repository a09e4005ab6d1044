package main

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
)

// all makes the tests build every platform with the profile, and the second time without the first build's cache.
var all = flag.Bool("all", false, "build all platforms, twice from nothing; for nightly runs")

const testVersion = "v0.1.0"

// scratch is a directory shared by all tests. TestMain removes it.
var scratch string

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(runTests(m))
}

func runTests(m *testing.M) int {
	var err error
	if scratch, err = os.MkdirTemp("", "release-test"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(scratch) }()
	if err := writeTestKey(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// testKey signs the releases of the tests.
var testKey *ecdsa.PrivateKey

// writeTestKey creates the key and its file.
func writeTestKey() (err error) {
	if testKey, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		return err
	}
	der, err := x509.MarshalECPrivateKey(testKey)
	if err != nil {
		return err
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})
	return os.WriteFile(filepath.Join(scratch, "release.key"), text, 0o600)
}

// made returns the directory of a release of the current files. All tests share it.
func made(t *testing.T) string {
	t.Helper()
	dir, err := makeOnce()
	must(t, err)
	return dir
}

var makeOnce = sync.OnceValues(func() (string, error) {
	dir := filepath.Join(scratch, "made")
	return dir, makeFrom("../..", dir)
})

// makeFrom makes a release of the repository in source.
func makeFrom(source, dir string) error {
	var log bytes.Buffer
	args := []string{"-version", testVersion, "-source", source, "-out", dir, "-dirty",
		"-key", filepath.Join(scratch, "release.key")}
	if !*all {
		// With the profile, every package would have to be compiled again.
		args = append(args, "-only", runtime.GOOS+"/"+runtime.GOARCH, "-pgo", noProfile)
	}
	if err := run(context.Background(), args, &log); err != nil {
		return fmt.Errorf("%w\n%s", err, log.Bytes())
	}
	return nil
}

// TestTwoBuildsAreEqual: a second build of a release, in another directory, has the same bytes.
func TestTwoBuildsAreEqual(t *testing.T) {
	first, second := made(t), filepath.Join(scratch, "second")
	tree := copyTree(t)
	if *all {
		t.Setenv("GOCACHE", filepath.Join(scratch, "cache"))
	}
	must(t, makeFrom(tree, second))
	names := fileNames(t, first)
	if other := fileNames(t, second); !slices.Equal(names, other) {
		t.Fatalf("files %v, then %v", names, other)
	}
	for _, name := range names {
		if !bytes.Equal(read(t, first, name), read(t, second, name)) {
			t.Errorf("%s differs between two builds", name)
		}
	}
}

// copyTree returns a copy of the repository with its current files, in a directory with another name.
func copyTree(t *testing.T) string {
	t.Helper()
	to := filepath.Join(scratch, "a", "tree with another name")
	must(t, os.MkdirAll(filepath.Dir(to), 0o755))
	shell(t, `git clone --quiet --shared --no-checkout ../.. "$1"
		cd ../.. && git ls-files -z --cached --others --exclude-standard |
		tar --create --null --files-from=- --ignore-failed-read | tar --extract --directory "$1"`, to)
	return to
}

// TestCommandLine: a wrong version, platform or directory is rejected before the build.
func TestCommandLine(t *testing.T) {
	t.Parallel()
	full := t.TempDir()
	must(t, os.WriteFile(filepath.Join(full, "file"), nil, 0o600))
	for want, args := range map[string][]string{
		`-version is "0.1.0"`:                 {"-version", "0.1.0", "-out", "x"},
		`-version is "v0.1.0+x"`:              {"-version", "v0.1.0+x", "-out", "x"},
		"usage: release":                      {"-version", "v0.1.0"},
		`-only is "plan9/386"`:                {"-version", "v0.1.0", "-out", "x", "-only", "plan9/386"},
		"is not empty; delete it first":       {"-version", "v0.1.0", "-out", full, "-source", "../..", "-dirty"},
		"flag provided but not defined: -fix": {"-fix"},
	} {
		if err := run(t.Context(), args, new(bytes.Buffer)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, not %s", args, err, want)
		}
	}
}

// TestOnlyCommitsAreReleased: changed files, and a version that is the tag of another commit, are rejected.
func TestOnlyCommitsAreReleased(t *testing.T) {
	t.Parallel()
	source := t.TempDir()
	shell(t, `cd "$1" && git init --quiet && git config user.name n && git config user.email e && echo 1 >file &&
		git add file && git commit --quiet --message one && git tag v0.1.0 && echo 2 >file`, source)
	refused := func(want, version string) {
		args := []string{"-version", version, "-source", source, "-out", filepath.Join(t.TempDir(), "out")}
		if err := run(t.Context(), args, new(bytes.Buffer)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, not %s", version, err, want)
		}
	}
	refused("there are uncommitted changes", "v0.1.0")
	shell(t, `cd "$1" && git commit --quiet --all --message two`, source)
	refused("the tag v0.1.0 is commit", "v0.1.0")
	refused("programs:", "v0.2.0") // there is no such tag
}

// shell runs a script of bash with arguments.
func shell(t *testing.T, script string, args ...string) string {
	t.Helper()
	return command(t, exec.CommandContext(t.Context(), "bash",
		append([]string{"-euo", "pipefail", "-c", script, "bash"}, args...)...))
}

// command runs a program, which must succeed, and returns its output.
func command(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	out, err := cmd.CombinedOutput()
	if err != nil {
		if errors.Is(err, exec.ErrNotFound) {
			t.Fatalf("%v: tools/setup installs it", err)
		}
		t.Fatalf("%v: %v\n%s", cmd.Args, err, out)
	}
	return string(out)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, dir, name string) []byte {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(dir, name))
	must(t, err)
	return content
}

// fileNames returns the paths of all files below a directory.
func fileNames(t *testing.T, dir string) (names []string) {
	t.Helper()
	must(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			names = append(names, strings.TrimPrefix(path, dir+"/"))
		}
		return err
	}))
	return names
}
