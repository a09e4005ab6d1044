package main

import (
	"context"
	"debug/buildinfo"
	"encoding/json"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// A component is a module that is part of a program.
type component struct{ kind, name, version string }

// purl returns the package URL of a component.
func (c component) purl() string {
	segments := strings.Split(c.name, "/")
	for i := range segments {
		segments[i] = url.QueryEscape(segments[i])
	}
	return "pkg:" + c.kind + "/" + strings.Join(segments, "/") + "@" + url.QueryEscape(c.version)
}

// sbomOf returns the name of the SBOM of a file.
func sbomOf(name string) string { return name + ".spdx.json" }

// makeSBOMs writes an SBOM for each file of a platform.
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
			text, err := r.sbom(subject{name, sum, "ARCHIVE", r.address(name)}, parts)
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
func (r *release) filesFor(p platform) []string {
	all := []string{r.archive(p)}
	if p.system == "linux" {
		for _, format := range formats {
			all = append(all, r.packageName(p, format))
		}
	}
	return all
}

// components returns the components of some programs: the Go standard library, modules, and packages of the console.
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

// address returns the address of a file of the release.
func (r *release) address(name string) string {
	return project + "/releases/download/" + r.version + "/" + name
}

// A subject is what an SBOM describes.
type subject struct {
	name     string
	sum      string // SHA-256, in hex
	purpose  string // a term of SPDX
	location string // address for downloads
}

// imageSBOM returns the SBOM of an image, as an artifact that refers to it.
func (r *release) imageSBOM(i image, p platform, img v1.Image) (v1.Image, error) {
	of, err := partial.Descriptor(img)
	if err != nil {
		return nil, err
	}
	parts, err := r.components(r.program(p, i.program))
	if err != nil {
		return nil, err
	}
	name := i.program + "_" + r.number() + "_" + p.arch + "_image"
	text, err := r.sbom(subject{name, of.Digest.Hex, "CONTAINER", noAssertion}, parts)
	if err != nil {
		return nil, err
	}
	artifact := mutate.MediaType(empty.Image, types.OCIManifestSchema1)
	artifact, err = mutate.AppendLayers(mutate.ConfigMediaType(artifact, spdxType), static.NewLayer(text, spdxType))
	if err != nil {
		return nil, err
	}
	return mutate.Subject(artifact, *of).(v1.Image), nil
}

// sbom returns an SPDX document about a subject with the given components.
func (r *release) sbom(s subject, parts []component) ([]byte, error) {
	const document, file = "SPDXRef-DOCUMENT", "SPDXRef-artifact"
	d := spdx{Version: "SPDX-2.3", License: "CC0-1.0", ID: document, Name: s.name,
		Namespace: project + "/spdx/" + s.name + "-" + s.sum}
	d.Creation.Created = r.date.Format(time.RFC3339)
	d.Creation.Creators = []string{"Organization: capgate", "Tool: capgate-release-" + r.version}
	d.Packages = []spdxPackage{{ID: file, Name: s.name, Version: r.version, Purpose: s.purpose, Location: s.location,
		Declared: license, Concluded: noAssertion, Copyright: noAssertion, Sums: []spdxSum{{"SHA256", s.sum}}}}
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
