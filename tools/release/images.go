package main

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/pem"
	"io"
	"os"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// imageUser is the user of images, which does not exist on the host.
const imageUser = "65532:65532"

// An image is the configuration of a program's containers.
type image struct {
	program     string
	description string
	arguments   []string            // default arguments
	ports       map[string]struct{} // exposed
}

var images = []image{
	{"capgate", "Gateway for the tools of AI agents", []string{"serve"},
		map[string]struct{}{"8080/tcp": {}, "8081/tcp": {}}},
	{"capgate-forward", "Stands in for a capability container, and forwards its calls to a gateway", nil,
		map[string]struct{}{"50051/tcp": {}}},
}

// layoutFile returns the name of the archive with the OCI layout of a program's image.
func (r *release) layoutFile(program string) string { return program + "_" + r.number() + "_oci.tar" }

// linux returns the platforms that have images and packages.
func (r *release) linux() (all []platform) {
	for _, p := range r.platforms {
		if p.system == "linux" {
			all = append(all, p)
		}
	}
	return all
}

// makeImages writes an OCI layout for each image: an index of all platforms, and an SBOM that refers to each image.
func (r *release) makeImages(context.Context) error {
	for _, i := range images {
		if len(r.linux()) == 0 {
			return nil
		}
		dir := filepath.Join(r.work, "oci", i.program)
		if err := r.writeLayout(dir, i); err != nil {
			return err
		}
		if err := r.packDirectory(dir, r.file(r.layoutFile(i.program))); err != nil {
			return err
		}
	}
	return nil
}

// writeLayout writes the OCI layout of an image into a directory.
func (r *release) writeLayout(dir string, i image) error {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	var sboms []v1.Image
	for _, p := range r.linux() {
		img, err := r.image(i, p)
		if err != nil {
			return err
		}
		sbom, err := r.imageSBOM(i, p, img)
		if err != nil {
			return err
		}
		sboms = append(sboms, sbom)
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: img, Descriptor: v1.Descriptor{
			Platform: &v1.Platform{OS: p.system, Architecture: p.arch}}})
	}
	index = mutate.Annotations(index, r.labels(i)).(v1.ImageIndex)
	path, err := layout.Write(dir, empty.Index)
	if err != nil {
		return err
	}
	tag := map[string]string{refName: r.version}
	if err := path.AppendIndex(index, layout.WithAnnotations(tag)); err != nil {
		return err
	}
	for _, sbom := range sboms {
		if err := path.AppendImage(sbom); err != nil {
			return err
		}
	}
	return nil
}

// image returns the image of a program for a platform: the program and the certificate authorities, and nothing else.
func (r *release) image(i image, p platform) (v1.Image, error) {
	program, err := os.ReadFile(r.program(p, i.program))
	if err != nil {
		return nil, err
	}
	content, err := r.layer(map[string][]byte{i.program: program, authoritiesFile: authorities()},
		"etc/", "etc/ssl/", "etc/ssl/certs/", authoritiesFile, i.program)
	if err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(content)), nil
	}, tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, err
	}
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	base, err = mutate.ConfigFile(base, &v1.ConfigFile{
		OS: p.system, Architecture: p.arch, Created: v1.Time{Time: r.date},
		RootFS: v1.RootFS{Type: "layers"},
		Config: v1.Config{User: imageUser, ExposedPorts: i.ports, Entrypoint: []string{"/" + i.program},
			Cmd: i.arguments, WorkingDir: "/", Labels: r.labels(i)},
	})
	if err != nil {
		return nil, err
	}
	return mutate.Append(base, mutate.Addendum{Layer: layer, History: v1.History{Created: v1.Time{Time: r.date},
		CreatedBy: "make release VERSION=" + r.version}})
}

// labels returns the labels of an image, and the annotations of its index.
func (r *release) labels(i image) map[string]string {
	const prefix = "org.opencontainers.image."
	return map[string]string{
		prefix + "title": i.program, prefix + "description": i.description, prefix + "version": r.version,
		prefix + "revision": r.commit, prefix + "created": r.date.Format("2006-01-02T15:04:05Z"),
		prefix + "source": project, prefix + "url": project, prefix + "licenses": license,
		prefix + "documentation": project + "/tree/" + r.version + "/docs",
	}
}

const authoritiesFile = "etc/ssl/certs/ca-certificates.crt"

// authorities returns Mozilla's certificate authorities in PEM, as pinned by Go's module.
func authorities() []byte {
	var all bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil { // PEM cannot carry a constraint
			all.Write(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}))
		}
	}
	return all.Bytes()
}

// layer returns a tar archive of files and directories, in the order of names. Directories end with a slash.
func (r *release) layer(files map[string][]byte, names ...string) ([]byte, error) {
	var all bytes.Buffer
	w := tar.NewWriter(&all)
	for _, name := range names {
		head := &tar.Header{Name: name, Mode: 0o755, Typeflag: tar.TypeDir, ModTime: r.date, Format: tar.FormatUSTAR}
		if content, ok := files[name]; ok {
			head.Typeflag, head.Size = tar.TypeReg, int64(len(content))
		}
		if name == authoritiesFile {
			head.Mode = 0o644
		}
		if err := w.WriteHeader(head); err != nil {
			return nil, err
		}
		if _, err := w.Write(files[name]); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil { // before Bytes, because Close writes the end of the archive
		return nil, err
	}
	return all.Bytes(), nil
}

// packDirectory writes all files below a directory into a tar archive, in the order of their names.
func (r *release) packDirectory(dir, to string) error {
	files, names := map[string][]byte{}, []string{}
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err == nil && d.IsDir() {
			name += "/"
		} else if err == nil {
			files[name], err = os.ReadFile(path)
		}
		names = append(names, name)
		return err
	})
	if err != nil {
		return err
	}
	content, err := r.layer(files, names...)
	if err != nil {
		return err
	}
	return os.WriteFile(to, content, 0o644)
}
