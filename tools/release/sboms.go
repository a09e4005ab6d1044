package main

import (
	"context"
	"debug/buildinfo"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// A component is a module that is part of a program.
type component struct{ kind, name, version string }

// purl returns the package URL of a component.
func (c component) purl() string { return "pkg:" + c.kind + "/" + c.name + "@" + c.version }

// sbomOf returns the name of the SBOM of a file.
func sbomOf(name string) string { return name + ".spdx.json" }

// makeSBOMs writes an SBOM beside each file for a platform.
func (r *release) makeSBOMs(context.Context) error {
	for _, p := range r.platforms {
		parts, err := r.components(r.program(p, programs[0]), r.program(p, programs[1]))
		if err != nil {
			return err
		}
		for _, name := range r.filesFor(p) {
			sum, err := r.sum(name)
			if err != nil {
				return err
			}
			text, err := r.sbom(name, sum, parts)
			if err != nil {
				return err
			}
			if err := r.write(sbomOf(name), text); err != nil {
				return err
			}
		}
	}
	return nil
}

// filesFor returns the files of the release that have programs for a platform.
func (r *release) filesFor(p platform) []string { return []string{r.archive(p)} }

// components returns what some programs consist of: the Go standard library, modules, and packages of the console.
func (r *release) components(programs ...string) ([]component, error) {
	all := map[component]bool{}
	for _, program := range programs {
		info, err := buildinfo.ReadFile(program)
		if err != nil {
			return nil, err
		}
		all[component{"golang", "stdlib", strings.TrimPrefix(info.GoVersion, "go")}] = true
		for _, m := range info.Deps {
			if m.Replace != nil {
				m = m.Replace
			}
			all[component{"golang", m.Path, m.Version}] = true
		}
	}
	text, err := os.ReadFile(filepath.Join(r.source, "console/package.json"))
	if err != nil {
		return nil, err
	}
	var console struct{ Dependencies map[string]string }
	if err := json.Unmarshal(text, &console); err != nil {
		return nil, err
	}
	for name, version := range console.Dependencies {
		all[component{"npm", name, version}] = true
	}
	byURL := func(a, b component) int { return strings.Compare(a.purl(), b.purl()) }
	return slices.SortedFunc(maps.Keys(all), byURL), nil
}

// sbom returns an SPDX document about a file with the given SHA-256 and components.
func (r *release) sbom(name, sum string, parts []component) ([]byte, error) {
	const document, file = "SPDXRef-DOCUMENT", "SPDXRef-artifact"
	d := spdx{Version: "SPDX-2.3", License: "CC0-1.0", ID: document, Name: name,
		Namespace: project + "/spdx/" + name + "-" + sum}
	d.Creation.Created = r.date.Format(time.RFC3339)
	d.Creation.Creators = []string{"Organization: capgate", "Tool: capgate-release-" + r.version}
	d.Packages = []spdxPackage{{ID: file, Name: name, Version: r.version, Purpose: "ARCHIVE",
		Location: project + "/releases/download/" + r.version + "/" + name, Declared: "Apache-2.0",
		Concluded: noAssertion, Copyright: noAssertion, Sums: []spdxSum{{"SHA256", sum}}}}
	d.Relations = []spdxRelation{{document, "DESCRIBES", file}}
	for _, c := range parts {
		p := spdxPackage{ID: spdxID(c), Name: c.name, Version: c.version, Purpose: "LIBRARY", Location: noAssertion,
			Declared: noAssertion, Concluded: noAssertion, Copyright: noAssertion,
			Refs: []spdxRef{{"PACKAGE-MANAGER", "purl", c.purl()}}}
		d.Packages = append(d.Packages, p)
		d.Relations = append(d.Relations, spdxRelation{file, "CONTAINS", p.ID})
	}
	text, err := json.MarshalIndent(d, "", "  ")
	return append(text, '\n'), err
}
