package main

import (
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// TestTheFormulaInstalls: ruby accepts the formula. For this machine, it names the archive with its checksum and
// installs the archive's files, in a stand-in for Homebrew. The test in the formula passes.
func TestTheFormulaInstalls(t *testing.T) {
	t.Parallel()
	dir, prefix := made(t), t.TempDir()
	file := filepath.Join(dir, formulaFile)
	if out := command(t, exec.CommandContext(t.Context(), "ruby", "-wc", file)); out != "Syntax OK\n" {
		t.Errorf("ruby says %s", out)
	}
	cpu := map[string]string{"amd64": "on_intel", "arm64": "on_arm"}[runtime.GOARCH]
	got := strings.Fields(command(t, exec.CommandContext(t.Context(), "ruby", "testdata/brew.rb", file, "on_linux", cpu,
		unpack(t), prefix)))
	r := &release{version: testVersion, out: dir}
	archive := r.archive(platform{runtime.GOOS, runtime.GOARCH})
	sum, err := r.sum(archive)
	must(t, err)
	if want := []string{r.address(archive), sum}; !slices.Equal(got, want) {
		t.Errorf("the formula has %v, not %v", got, want)
	}
	want := []string{"bin/capgate", "bin/capgate-forward", "etc/bash_completion.d/capgate",
		"share/fish/vendor_completions.d/capgate.fish", "share/man/man1/capgate.1", "share/man/man5/capgate.yaml.5",
		"share/zsh/site-functions/_capgate"}
	if files := fileNames(t, prefix); !slices.Equal(files, want) {
		t.Errorf("it installs %v", files)
	}
}
