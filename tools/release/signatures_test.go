package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// newKey returns the file of a new key, created as make release-key creates it.
func newKey(t *testing.T, dir string) string {
	t.Helper()
	file := filepath.Join(dir, "release.key")
	shell(t, `make --silent --directory ../.. release-key KEY="$1"`, file)
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the key's file: %v %v", info, err)
	}
	return file
}

// TestKeys: a file without a suitable key is rejected, and no key is overwritten.
func TestKeys(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := newKey(t, dir)
	if _, err := readKey(file); err != nil {
		t.Error(err)
	}
	out := shell(t, `! make --silent --directory ../.. release-key KEY="$1" 2>&1`, file)
	if !strings.Contains(out, "exists") {
		t.Errorf("a second key: %s", out)
	}
	other := filepath.Join(dir, "other.key")
	shell(t, `openssl genpkey -algorithm ed25519 -out "$1"`, other)
	for _, wrong := range []string{other, filepath.Join(dir, "none"), "steps.go"} {
		if key, err := readKey(wrong); err == nil {
			t.Errorf("%s: %v", wrong, key)
		}
	}
}

// TestVerifyByHand: the commands of SECURITY.md accept the files of a release, and reject changed checksums and files.
func TestVerifyByHand(t *testing.T) {
	t.Parallel()
	_, text, _ := strings.Cut(string(read(t, "../..", "SECURITY.md")), "## Verify a release")
	_, text, _ = strings.Cut(text, "```sh\n")
	script, _, _ := strings.Cut(text, "```")
	names := []string{publicKeyFile, checksumsFile, signatureFile, formulaFile} // a subset of the release
	for _, changed := range []string{"", checksumsFile, signatureFile, formulaFile} {
		dir := t.TempDir()
		for _, name := range names {
			content := read(t, made(t), name)
			if name == changed {
				content[0] ^= 1
			}
			must(t, os.WriteFile(filepath.Join(dir, name), content, 0o600))
		}
		cmd := exec.CommandContext(t.Context(), "bash", "-ec", script)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if (err == nil) != (changed == "") || err == nil && !strings.Contains(string(out), formulaFile+": OK") {
			t.Errorf("with a change of %q: %v\n%s", changed, err, out)
		}
	}
}

// TestVerifyWithCosign: the commands of SECURITY.md with cosign are complete: they name the workflow, the tag and the
// signed file. A stand-in replaces cosign.
func TestVerifyWithCosign(t *testing.T) {
	t.Parallel()
	_, text, _ := strings.Cut(string(read(t, "../..", "SECURITY.md")), "With [cosign]")
	_, text, _ = strings.Cut(text, "```sh\n")
	script, _, _ := strings.Cut(text, "```")
	const file = ".github/workflows/release.yml"
	signer := " --certificate-identity " + project + "/" + file + "@refs/tags/" + testVersion +
		" --certificate-oidc-issuer https://token.actions.githubusercontent.com "
	want := ""
	for _, i := range images {
		want += "verify" + signer + "ghcr.io/capgate/" + i.program + ":" + testVersion + "\n"
	}
	want += "verify" + signer + "ghcr.io/capgate/charts/capgate:" + strings.TrimPrefix(testVersion, "v") + "\n" +
		"verify-blob" + signer + "--bundle " + bundleFile + " " + checksumsFile + "\n"
	if got := shell(t, "cosign() { echo \"$*\"; }\n"+script); got != want {
		t.Errorf("the commands are\n%s, not\n%s", got, want)
	}
	read(t, "../..", file)
}

// TestCosign: cosign, if given, signs the checksums. If it fails, the release fails.
func TestCosign(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cosign := filepath.Join(dir, "cosign")
	script := "#!/bin/sh\n[ \"$1 $2 $3\" = 'sign-blob --yes --bundle' ] && cp \"$5\" \"$4\"\n"
	must(t, os.WriteFile(cosign, []byte(script), 0o700))
	must(t, os.WriteFile(filepath.Join(dir, checksumsFile), []byte("sums"), 0o600))
	r := &release{source: dir, out: dir, cosign: cosign}
	must(t, r.makeSignatures(t.Context()))
	if got := string(read(t, dir, bundleFile)); got != "sums" {
		t.Errorf("cosign signed %q", got)
	}
	r.cosign = "false"
	if err := r.makeSignatures(t.Context()); err == nil {
		t.Error("a failure of cosign was ignored")
	}
}
