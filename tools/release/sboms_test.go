package main

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"

	spdxjson "github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdx/v2/common"
	"github.com/spdx/tools-golang/spdx/v2/v2_3"
	"github.com/spdx/tools-golang/spdxlib"
)

// TestSBOMs: each file of a platform has an SPDX document that SPDX's own library accepts. It has the file's checksum
// and components, including those of the console.
func TestSBOMs(t *testing.T) {
	t.Parallel()
	dir, checked := made(t), 0
	for _, name := range fileNames(t, dir) {
		of, found := strings.CutSuffix(name, sbomOf(""))
		if !found {
			continue
		}
		checked++
		doc := &v2_3.Document{}
		must(t, spdxjson.ReadInto(bytes.NewReader(read(t, dir, name)), doc))
		must(t, spdxlib.ValidateDocument(doc))
		checkSBOM(t, dir, of, doc)
	}
	if checked == 0 {
		t.Error("there is no SBOM")
	}
}

// checkSBOM checks the content of the SBOM of a file.
func checkSBOM(t *testing.T, dir, name string, doc *v2_3.Document) {
	t.Helper()
	sum, err := (&release{out: dir}).sum(name)
	must(t, err)
	if p := doc.Packages[0]; p.PackageChecksums[0] != (common.Checksum{Algorithm: common.SHA256, Value: sum}) {
		t.Errorf("%s: the SBOM is for %v, not %s", name, p.PackageChecksums, sum)
	}
	grpc := goModVersion(t, "google.golang.org/grpc")
	var purls []string
	for _, p := range doc.Packages[1:] {
		purls = append(purls, p.PackageExternalReferences[0].Locator)
	}
	for _, want := range []string{"pkg:golang/google.golang.org/grpc@" + grpc, "pkg:npm/preact@",
		"pkg:golang/stdlib@1."} {
		if !strings.Contains(strings.Join(purls, "\n"), want) {
			t.Errorf("%s: no %s in %v", name, want, purls)
		}
	}
}

// TestPURLs: names and versions are percent-encoded, except for the slashes of a name.
func TestPURLs(t *testing.T) {
	t.Parallel()
	for want, c := range map[string]component{
		"pkg:golang/google.golang.org/grpc@v1.2.3":         {"golang", "google.golang.org/grpc", "v1.2.3"},
		"pkg:golang/example.com/a~b@v2.0.0%2Bincompatible": {"golang", "example.com/a~b", "v2.0.0+incompatible"},
		"pkg:npm/%40preact/signals-core@1.0.0-rc.1":        {"npm", "@preact/signals-core", "1.0.0-rc.1"},
	} {
		if got := c.purl(); got != want {
			t.Errorf("%v: %s, not %s", c, got, want)
		}
	}
}

// goModVersion returns the version of a module that the gateway requires.
func goModVersion(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile("../../go.mod")
	must(t, err)
	_, rest, _ := strings.Cut(string(text), "\t"+path+" ")
	return strings.Fields(rest)[0]
}

// TestProvenance: the statement has the commit, and the checksums of all files written before it.
func TestProvenance(t *testing.T) {
	t.Parallel()
	dir := made(t)
	var s statement
	must(t, json.Unmarshal(read(t, dir, provenanceFile), &s))
	named := map[string]string{}
	for _, subject := range s.Subject {
		named[subject.Name] = subject.Digest["sha256"]
	}
	for line := range strings.Lines(string(read(t, dir, checksumsFile))) {
		sum, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		if name != provenanceFile && named[name] != sum {
			t.Errorf("%s: %q in the statement, %s in %s", name, named[name], sum, checksumsFile)
		}
	}
	commit := strings.TrimSpace(shell(t, "git rev-parse HEAD"))
	if d := s.Predicate.BuildDefinition.ResolvedDependencies; d[0].Digest["gitCommit"] != commit {
		t.Errorf("the statement is about %v, not %s", d[0], commit)
	}
}
