package conform

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/capgate/capgate/internal/container"
	docpb "github.com/capgate/capgate/proto/selu/capability"
)

// chunkBytes is the size of a file's chunks in Selu's orchestrator.
const chunkBytes = 256 << 10

// files are the uploaded files.
type files struct {
	uploaded container.Uploaded
	empty    container.Uploaded
	chunks   []*docpb.ArtifactChunk // of its download
	err      error                  // reason for which there are no chunks; may be a skip
}

const (
	fileName = "conform.txt"
	fileType = "text/plain"
)

// content returns a text of several chunks with a shorter last one, in which all lines differ.
func content() []byte {
	var b bytes.Buffer
	for i := 0; b.Len() < 2*chunkBytes+1000; i++ {
		fmt.Fprintf(&b, "line %d of a file\n", i) // a Buffer does not fail
	}
	return b.Bytes()
}

func file(data []byte) container.File {
	f := container.File{Name: fileName, MIME: fileType}
	for first := true; first || len(data) > 0; first = false {
		n := min(len(data), chunkBytes)
		f.Chunks = append(f.Chunks, data[:n])
		data = data[n:]
	}
	return f
}

// upload uploads a file and expects an id.
func (r *run) upload(ctx context.Context, data []byte) (container.Uploaded, error) {
	up, err := r.client.Upload(ctx, file(data))
	switch {
	case status.Code(err) == codes.Unimplemented:
		return up, skip("it takes no files: uploads get UNIMPLEMENTED")
	case err != nil:
		return up, errors.New("the upload ends with " + container.Explain(err))
	case up.Error != "":
		return up, errors.New("it says: " + container.Clean(up.Error))
	case up.ID == "":
		return up, errors.New("the file has no id")
	}
	return up, nil
}

func checkUpload(ctx context.Context, r *run) error {
	up, err := r.upload(ctx, content())
	if err != nil {
		return err
	}
	r.files.uploaded = up
	r.files.chunks, r.files.err = r.download(ctx, up.ID)
	return nil
}

// download fetches an uploaded file.
func (r *run) download(ctx context.Context, id string) ([]*docpb.ArtifactChunk, error) {
	chunks, err := r.client.Download(ctx, id)
	switch {
	case status.Code(err) == codes.Unimplemented:
		return nil, skip("it gives no files: downloads get UNIMPLEMENTED")
	case err != nil:
		return nil, errors.New("the download ends with " + container.Explain(err))
	case len(chunks) == 0:
		return nil, errors.New("the download ends without a chunk")
	}
	for _, c := range chunks {
		if c.GetError() != "" {
			return nil, skip("the uploaded file cannot be downloaded: " + container.Clean(c.GetError()))
		}
	}
	return chunks, nil
}

// noUpload returns a skip if no file could be uploaded.
func (r *run) noUpload() error {
	if r.files.uploaded.ID == "" {
		return skip("no file is there: see upload")
	}
	return nil
}

// noDownload returns a skip if no file could be downloaded.
func (r *run) noDownload() error {
	var cannot skip
	switch {
	case r.files.uploaded.ID == "":
		return r.noUpload()
	case errors.As(r.files.err, &cannot):
		return cannot
	case r.files.err != nil:
		return skip("the download does not work: see download")
	}
	return nil
}

func checkUploadSize(_ context.Context, r *run) error {
	if err := r.noUpload(); err != nil {
		return err
	}
	if sent := uint64(len(content())); r.files.uploaded.Size != sent {
		return fmt.Errorf("%d bytes were sent, and size_bytes is %d", sent, r.files.uploaded.Size)
	}
	return nil
}

func checkUploadEmpty(ctx context.Context, r *run) error {
	if err := r.noUpload(); err != nil {
		return err
	}
	up, err := r.upload(ctx, nil)
	if err == nil {
		r.files.empty = up
	}
	return err
}

func checkUploadIDs(ctx context.Context, r *run) error {
	if err := r.noUpload(); err != nil {
		return err
	}
	up, err := r.upload(ctx, []byte("another file"))
	if err == nil && up.ID == r.files.uploaded.ID {
		err = fmt.Errorf("two files have the id %s", container.Clean(up.ID))
	}
	return err
}

func checkDownload(_ context.Context, r *run) error {
	if err := r.noUpload(); err != nil {
		return err
	}
	if r.files.err != nil {
		return r.files.err
	}
	var got []byte
	for _, c := range r.files.chunks {
		got = append(got, c.GetData()...)
		if c.GetDone() {
			break
		}
	}
	if sent := content(); !bytes.Equal(got, sent) {
		return fmt.Errorf("the upload of %d bytes differs from the download of %d bytes", len(sent), len(got))
	}
	return nil
}

func checkDownloadName(_ context.Context, r *run) error {
	if err := r.noDownload(); err != nil {
		return err
	}
	if first := r.files.chunks[0]; first.GetFilename() != fileName || first.GetMimeType() != fileType {
		return fmt.Errorf("%s of the type %s was uploaded, and the first chunk has %q and %q", fileName, fileType,
			container.Clean(first.GetFilename()), container.Clean(first.GetMimeType()))
	}
	return nil
}

func checkDownloadDone(_ context.Context, r *run) error {
	if err := r.noDownload(); err != nil {
		return err
	}
	return checkDone(r.files.chunks)
}

func checkDownloadEnd(_ context.Context, r *run) error {
	if err := r.noDownload(); err != nil {
		return err
	}
	return checkEnd(r.files.chunks)
}

func checkDownloadEmpty(ctx context.Context, r *run) error {
	if err := r.noDownload(); err != nil {
		return err
	}
	switch r.files.empty.ID {
	case "":
		return skip("there is no empty file: see upload-empty")
	case r.files.uploaded.ID:
		return skip("the empty file has another's id: see upload-ids")
	}
	chunks, err := r.client.Download(ctx, r.files.empty.ID)
	if err != nil {
		return errors.New("the download ends with " + container.Explain(err))
	}
	if len(chunks) == 0 {
		return errors.New("the download ends without a chunk, which callers take for a failure")
	}
	for _, c := range chunks {
		switch {
		case c.GetError() != "":
			return errors.New("it says: " + container.Clean(c.GetError()))
		case len(c.GetData()) > 0:
			return fmt.Errorf("nothing was uploaded, and a chunk has %d bytes", len(c.GetData()))
		}
	}
	return checkDone(chunks)
}

func checkDownloadUnknown(ctx context.Context, r *run) error {
	chunks, err := r.client.Download(ctx, "capgate-no-such-file")
	switch {
	case status.Code(err) == codes.Unimplemented && len(chunks) == 0:
		return skip("it gives no files: downloads get UNIMPLEMENTED")
	case err != nil:
		return errors.New("the download ends with " + container.Explain(err))
	case len(chunks) == 0 || chunks[len(chunks)-1].GetError() == "":
		return errors.New("the download of a file that does not exist ends without an error")
	}
	return nil
}
