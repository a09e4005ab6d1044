package main

import (
	"bytes"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	spdxjson "github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdx/v2/v2_3"
	"github.com/spdx/tools-golang/spdxlib"
)

// pulled is an image from a registry, unpacked.
type pulled struct {
	image  v1.Image
	config *v1.ConfigFile
	root   string // directory of its files
}

// pull pushes the image of a program to a registry and pulls it for this machine.
func pull(t *testing.T, program string) *pulled {
	t.Helper()
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0)),
		registry.WithReferrersSupport(true)))
	t.Cleanup(server.Close)
	repository, err := name.NewRepository(strings.TrimPrefix(server.URL, "http://") + "/edge/" + program)
	must(t, err)
	file := filepath.Join(made(t), (&release{version: testVersion}).layoutFile(program))
	must(t, push(t.Context(), []string{file, repository.String()}, new(bytes.Buffer)))

	p := &pulled{}
	p.image, err = remote.Image(repository.Tag(testVersion),
		remote.WithPlatform(v1.Platform{OS: "linux", Architecture: runtime.GOARCH}))
	must(t, err)
	p.config, err = p.image.ConfigFile()
	must(t, err)
	p.root, err = os.MkdirTemp(scratch, "root")
	must(t, err)
	must(t, os.Chmod(scratch, 0o755)) // readable by the image's user
	must(t, os.Chmod(p.root, 0o755))
	files := mutate.Extract(p.image)
	defer func() { _ = files.Close() }() // it has been read
	unpack := exec.CommandContext(t.Context(), "tar", "--extract", "--directory", p.root)
	unpack.Stdin = files
	command(t, unpack)
	p.hasSBOM(t, repository)
	return p
}

// hasSBOM checks the SBOM that the registry has for the image.
func (p *pulled) hasSBOM(t *testing.T, repository name.Repository) {
	t.Helper()
	digest, err := p.image.Digest()
	must(t, err)
	referrers, err := remote.Referrers(repository.Digest(digest.String()))
	must(t, err)
	list, err := referrers.IndexManifest()
	must(t, err)
	if len(list.Manifests) != 1 || list.Manifests[0].ArtifactType != spdxType {
		t.Fatalf("what refers to the image: %+v", list.Manifests)
	}
	artifact, err := remote.Image(repository.Digest(list.Manifests[0].Digest.String()))
	must(t, err)
	layers, err := artifact.Layers()
	must(t, err)
	content, err := layers[0].Uncompressed()
	must(t, err)
	doc := &v2_3.Document{}
	must(t, spdxjson.ReadInto(content, doc))
	must(t, spdxlib.ValidateDocument(doc))
	if sum := doc.Packages[0].PackageChecksums[0].Value; sum != digest.Hex {
		t.Errorf("the SBOM is for %s, not %s", sum, digest)
	}
}

// command returns a command that runs the image as its user, in its root and in separate namespaces, without
// environment. An ordinary user needs a user namespace for that.
func (p *pulled) command() *exec.Cmd {
	attr := &syscall.SysProcAttr{Chroot: p.root, Credential: &syscall.Credential{Uid: 65532, Gid: 65532},
		Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWIPC | syscall.CLONE_NEWUTS}
	if uid, gid := os.Geteuid(), os.Getegid(); uid != 0 {
		attr.Cloneflags |= syscall.CLONE_NEWUSER
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 65532, HostID: uid, Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 65532, HostID: gid, Size: 1}}
		attr.Credential.NoSetGroups = true
	}
	entry := p.config.Config.Entrypoint
	return &exec.Cmd{Path: entry[0], Args: slices.Clone(entry), Env: []string{}, Dir: "/", SysProcAttr: attr}
}

// TestTheImageRuns: the image from a registry has two files, an unprivileged user and labels. In its own root, it runs
// a demo that serves calls and reports the version.
func TestTheImageRuns(t *testing.T) {
	t.Parallel()
	p := pull(t, "capgate")
	want := []string{"capgate", authoritiesFile}
	if files := fileNames(t, p.root); !slices.Equal(files, want) {
		t.Errorf("the image has %v", files)
	}
	c := p.config.Config
	if c.User != imageUser || !slices.Equal(c.Cmd, []string{"serve"}) || p.config.Architecture != runtime.GOARCH ||
		c.Labels["org.opencontainers.image.version"] != testVersion {
		t.Errorf("the image's configuration: %+v", p.config)
	}
	if n := bytes.Count(read(t, p.root, authoritiesFile), []byte("BEGIN CERTIFICATE")); n < 100 {
		t.Errorf("%d authorities", n)
	}
	d := startDemo(t, p.command())
	if got := d.call(t, "Berlin"); !strings.Contains(got, "Germany") {
		t.Errorf("a call: %s", got)
	}
	d.saysVersion(t)
}

// TestTheForwardersImageRuns: the image of capgate-forward starts its program.
func TestTheForwardersImageRuns(t *testing.T) {
	t.Parallel()
	cmd := pull(t, "capgate-forward").command()
	cmd.Args = append(cmd.Args, "--version")
	if got := command(t, cmd); got != "capgate-forward "+testVersion+"\n" {
		t.Errorf("--version: %q", got)
	}
}

// TestPushRefuses: a push without a readable file or repository fails.
func TestPushRefuses(t *testing.T) {
	t.Parallel()
	for want, args := range map[string][]string{
		"usage: release push": {"one"},
		"no such file":        {"none.tar", "localhost:1/capgate"},
		"can only contain":    {"none.tar", "UPPER/CASE!"},
		"invalid tar header":  {"steps.go", "localhost:1/capgate"},
	} {
		if err := push(t.Context(), args, new(bytes.Buffer)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, not %s", args, err, want)
		}
	}
}

// TestArchivesHaveAnEnd: tar reads a layer, and an archive of a layout, to its end.
func TestArchivesHaveAnEnd(t *testing.T) {
	t.Parallel()
	content, err := new(release).layer(map[string][]byte{"dir/file": []byte("x")}, "dir/", "dir/file")
	must(t, err)
	list := exec.CommandContext(t.Context(), "tar", "--list")
	list.Stdin = bytes.NewReader(content)
	if names := command(t, list); names != "dir/\ndir/file\n" {
		t.Errorf("the archive has %q", names)
	}
}
