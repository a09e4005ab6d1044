package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// unpack returns a directory with the content of this machine's archive.
func unpack(t *testing.T) string {
	t.Helper()
	r := &release{version: testVersion}
	archive := filepath.Join(made(t), r.archive(platform{runtime.GOOS, runtime.GOARCH}))
	dir := t.TempDir()
	shell(t, `tar --extract --gzip --file "$1" --directory "$2"`, archive, dir)
	return dir
}

// TestTheArchiveRuns: the program of the archive runs, and reports its version everywhere.
func TestTheArchiveRuns(t *testing.T) {
	t.Parallel()
	dir := unpack(t)
	var v struct{ Version, Commit, Date string }
	must(t, json.Unmarshal([]byte(command(t, exec.Command(dir+"/capgate", "version", "-o", "json"))), &v))
	if commit := strings.TrimSpace(shell(t, "git rev-parse HEAD")); v.Version != testVersion || v.Commit != commit {
		t.Errorf("version: %+v, not %s of %s", v, testVersion, commit)
	}
	got := command(t, exec.Command(dir+"/capgate-forward", "--version"))
	if got != "capgate-forward "+testVersion+"\n" {
		t.Errorf("capgate-forward --version: %q", got)
	}
	if got := userAgent(t, dir+"/capgate"); !strings.HasPrefix(got, "capgate-conform/"+testVersion+" grpc-go/") {
		t.Errorf("User-Agent: %q", got)
	}
	d := startDemo(t, exec.Command(dir+"/capgate"))
	if got := d.call(t, "Berlin"); !strings.Contains(got, "Germany") {
		t.Errorf("a call: %s", got)
	}
	d.saysVersion(t)
}

// userAgent returns the User-Agent of the program's requests, as a server sees it.
func userAgent(t *testing.T, capgate string) string {
	t.Helper()
	seen := make(chan string, 1)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case seen <- r.UserAgent():
		default: // of a later request
		}
		w.WriteHeader(http.StatusNotFound)
	}))
	server.Config.Protocols = new(http.Protocols)
	server.Config.Protocols.SetUnencryptedHTTP2(true)
	server.Start()
	t.Cleanup(server.Close)
	addr := strings.TrimPrefix(server.URL, "http://")
	out, _ := exec.CommandContext(t.Context(), capgate, "probe", addr, "--timeout", "20s").CombinedOutput() // it fails
	select {
	case agent := <-seen:
		return agent
	default:
		t.Fatalf("the program sent nothing: %s", out)
		return ""
	}
}

// TestDocumentsOfTheArchive: man finds no error in the man pages, and bash none in its completion.
func TestDocumentsOfTheArchive(t *testing.T) {
	t.Parallel()
	dir := unpack(t)
	for name, want := range map[string]string{"capgate.1": "capgate demo", "capgate.yaml.5": "max_connection_age"} {
		cmd := exec.CommandContext(t.Context(), "man", "--warnings", "--local-file", filepath.Join(dir, "man", name))
		cmd.Env = append(cmd.Environ(), "MANWIDTH=80", "LC_ALL=C.UTF-8")
		if text := command(t, cmd); !strings.Contains(text, want) || strings.Contains(text, "warning:") ||
			strings.Contains(text, "&lt;") {
			t.Errorf("%s, without %q or with a warning:\n%.3000s", name, want, text)
		}
	}
	shell(t, `bash -n "$1"`, filepath.Join(dir, "completions/capgate.bash"))
	// bash calls the completion with these variables; compopt works only below the real one.
	got := shell(t, `source "$1"; set +eu; PATH=$2:$PATH; compopt() { :; }
		_get_comp_words_by_ref() { cur=app words=(capgate app) cword=1 prev=capgate; }
		COMP_TYPE=9 __start_capgate; echo "${COMPREPLY[@]}"`, filepath.Join(dir, "completions/capgate.bash"), dir)
	if !strings.HasPrefix(got, "approvals") {
		t.Errorf("the completion of app is %q", got)
	}
}

// TestChecksums: sha256sum accepts every file of the release, and each file is listed.
func TestChecksums(t *testing.T) {
	t.Parallel()
	dir := made(t)
	out := shell(t, `cd "$1" && sha256sum --check --strict checksums.txt`, dir)
	for _, name := range fileNames(t, dir) {
		if !strings.Contains(out, name+": OK\n") && !strings.HasPrefix(name, checksumsFile) {
			t.Errorf("%s has no checksum in\n%s", name, out)
		}
	}
}
