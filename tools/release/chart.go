package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"go.yaml.in/yaml/v3"
)

const (
	chartDir = "deploy/helm/capgate"
	chartOCI = "capgate-chart" // name of its OCI layout, like a program's

	chartConfigType types.MediaType = "application/vnd.cncf.helm.config.v1+json"
	chartLayerType  types.MediaType = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
)

// chartFile returns the name of the archive of the chart, as helm package names it.
func (r *release) chartFile() string { return "capgate-" + r.number() + ".tgz" }

// makeChart writes the chart with the version of the release, as an archive and as an OCI layout for registries.
func (r *release) makeChart(context.Context) error {
	meta, err := r.chartMeta()
	if err != nil {
		return err
	}
	entries, err := r.chartEntries(meta)
	if err != nil {
		return err
	}
	var archive bytes.Buffer
	if err := writeArchive(&archive, entries, r.date); err != nil {
		return err
	}
	if err := r.write(r.chartFile(), archive.Bytes()); err != nil {
		return err
	}
	artifact, err := r.chartArtifact(meta, archive.Bytes())
	if err != nil {
		return err
	}
	dir := filepath.Join(r.work, "oci", chartOCI)
	path, err := layout.Write(dir, empty.Index)
	if err != nil {
		return err
	}
	tag := map[string]string{refName: r.number()} // helm finds a version by this tag
	if err := path.AppendImage(artifact, layout.WithAnnotations(tag)); err != nil {
		return err
	}
	return r.packDirectory(dir, r.file(r.layoutFile(chartOCI)))
}

// chartMeta returns Chart.yaml with the versions of the release in place of those of the source tree.
func (r *release) chartMeta() ([]byte, error) {
	text, err := os.ReadFile(filepath.Join(r.source, chartDir, "Chart.yaml"))
	if err != nil {
		return nil, err
	}
	var lines []string
	found := 0
	for line := range strings.Lines(string(text)) {
		switch {
		case strings.HasPrefix(line, "#"): // comments about the source tree
			continue
		case strings.HasPrefix(line, "version: "):
			line, found = "version: "+r.number()+"\n", found+1
		case strings.HasPrefix(line, "appVersion: "):
			line, found = "appVersion: "+r.version+"\n", found+1 // the tag of the image
		}
		lines = append(lines, line)
	}
	if found != 2 {
		return nil, fmt.Errorf("%s/Chart.yaml has no single version and appVersion", chartDir)
	}
	return []byte(strings.Join(lines, "")), nil
}

// chartEntries returns the files of the chart in the order of their names.
func (r *release) chartEntries(meta []byte) (all []entry, err error) {
	root := filepath.Join(r.source, chartDir)
	changed := filepath.Join(r.work, "Chart.yaml")
	if err := os.WriteFile(changed, meta, 0o600); err != nil {
		return nil, err
	}
	err = filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(root, path)
		if name == "Chart.yaml" {
			path = changed
		}
		all = append(all, entry{"capgate/" + filepath.ToSlash(name), path, 0o644})
		return err
	})
	return all, err
}

// chartArtifact returns the chart as a registry stores it: the archive is the layer, and Chart.yaml the configuration.
func (r *release) chartArtifact(meta, archive []byte) (v1.Image, error) {
	var fields map[string]any
	if err := yaml.Unmarshal(meta, &fields); err != nil {
		return nil, err
	}
	a := &artifact{layer: static.NewLayer(archive, chartLayerType)}
	var err error
	if a.config, err = json.Marshal(fields); err != nil {
		return nil, err
	}
	config, err := partial.Descriptor(static.NewLayer(a.config, chartConfigType))
	if err != nil {
		return nil, err
	}
	layer, err := partial.Descriptor(a.layer)
	if err != nil {
		return nil, err
	}
	labels := r.labels(image{program: "capgate", description: fmt.Sprint(fields["description"])})
	labels["org.opencontainers.image.version"] = r.number()
	a.manifest, err = json.Marshal(v1.Manifest{SchemaVersion: 2, MediaType: types.OCIManifestSchema1, Config: *config,
		Layers: []v1.Descriptor{*layer}, Annotations: labels})
	if err != nil {
		return nil, err
	}
	return partial.CompressedToImage(a)
}

// An artifact is registry content other than an image. It implements partial.CompressedImageCore.
type artifact struct {
	config, manifest []byte
	layer            v1.Layer
}

// RawConfigFile implements partial.CompressedImageCore.
func (a *artifact) RawConfigFile() ([]byte, error) { return a.config, nil }

// RawManifest implements partial.CompressedImageCore.
func (a *artifact) RawManifest() ([]byte, error) { return a.manifest, nil }

// MediaType implements partial.CompressedImageCore.
func (a *artifact) MediaType() (types.MediaType, error) { return types.OCIManifestSchema1, nil }

// LayerByDigest implements partial.CompressedImageCore.
func (a *artifact) LayerByDigest(v1.Hash) (partial.CompressedLayer, error) { return a.layer, nil }
