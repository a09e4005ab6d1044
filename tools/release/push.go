package main

import (
	"archive/tar"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// push sends an image of a release to a registry, with its SBOMs, or the chart: push FILE REPOSITORY. The tag is the
// version. If the registry has the tag with the same content, nothing is sent; if it has other content, push fails. The
// credentials are those of docker login.
func push(ctx context.Context, args []string, stdout io.Writer) error {
	flags := flag.NewFlagSet("release push", flag.ContinueOnError)
	flags.SetOutput(stdout)
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() != 2 {
		return errors.New("usage: release push FILE_oci.tar REPOSITORY")
	}
	repository, err := name.NewRepository(flags.Arg(1))
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "capgate-release")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if err := unpackFile(flags.Arg(0), dir); err != nil {
		return err
	}
	index, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		return err
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		return err
	}
	options := []remote.Option{remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain)}
	for _, d := range manifest.Manifests {
		done := "found"
		if found, err := isPushed(ctx, repository, d); err != nil {
			return err
		} else if !found {
			done = "pushed"
			if err := pushOne(repository, index, d, options); err != nil {
				return err
			}
		}
		_, _ = fmt.Fprintf(stdout, "%s %s@%s\n", done, repository, d.Digest) // the push has succeeded
	}
	return nil
}

// isPushed reports whether the registry has the content of d under its tag. Other content under the tag is an error. It
// requests the right to push, because without it, a registry may deny access instead of reporting a missing repository.
func isPushed(ctx context.Context, repository name.Repository, d v1.Descriptor) (bool, error) {
	tag := d.Annotations[refName]
	if tag == "" {
		return false, nil
	}
	auth, err := authn.Resolve(ctx, authn.DefaultKeychain, repository)
	if err != nil {
		return false, err
	}
	pusher, err := transport.NewWithContext(ctx, repository.Registry, auth, transport.NewRetry(remote.DefaultTransport),
		[]string{repository.Scope(transport.PushScope)})
	if err != nil {
		return false, err
	}
	there, err := remote.Head(repository.Tag(tag), remote.WithContext(ctx), remote.WithTransport(pusher))
	if failed := (*transport.Error)(nil); errors.As(err, &failed) && failed.StatusCode == http.StatusNotFound {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if there.Digest != d.Digest {
		return false, fmt.Errorf("%s:%s is %s in the registry, not %s; release another version", repository, tag,
			there.Digest, d.Digest)
	}
	return true, nil
}

// refName is the annotation with the tag, in the index of an OCI layout.
const refName = "org.opencontainers.image.ref.name"

// pushOne sends an index or a chart under its tag, or an artifact that refers to an image under its digest.
func pushOne(repository name.Repository, layout v1.ImageIndex, d v1.Descriptor, options []remote.Option) error {
	if d.MediaType != types.OCIImageIndex {
		img, err := layout.Image(d.Digest)
		if err != nil {
			return err
		}
		var to name.Reference = repository.Digest(d.Digest.String())
		if tag := d.Annotations[refName]; tag != "" {
			to = repository.Tag(tag)
		}
		return remote.Write(to, img, options...)
	}
	index, err := layout.ImageIndex(d.Digest)
	if err != nil {
		return err
	}
	return remote.WriteIndex(repository.Tag(d.Annotations[refName]), index, options...)
}

// unpackFile unpacks a tar archive into a directory. It rejects paths that leave the directory.
func unpackFile(file, to string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // it has been read
	root, err := os.OpenRoot(to)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	t := tar.NewReader(f)
	for {
		head, err := t.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := unpackEntry(root, head, t); err != nil {
			return err
		}
	}
}

func unpackEntry(root *os.Root, head *tar.Header, content io.Reader) error {
	name := filepath.Clean(head.Name)
	if head.Typeflag == tar.TypeDir {
		return root.MkdirAll(name, 0o755)
	}
	w, err := root.OpenFile(name, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, os.FileMode(head.Mode)&0o777)
	if err != nil {
		return err
	}
	_, err = io.Copy(w, content)
	if closed := w.Close(); err == nil {
		err = closed
	}
	return err
}
