package files

import (
	"context"
	"crypto/sha256"
	"io"
	"net/http"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/recovery"
	docpb "github.com/capgate/capgate/proto/selu/capability"
)

// chunkBytes is the size of a chunk, as in Selu's orchestrator.
const chunkBytes = 256 << 10

// Uploaded is a file that a capability has stored.
type Uploaded struct {
	ID          string
	Filename    string // as sent to the capability; empty means none
	ContentType string
	Size        int64
	SHA256      Sum
}

// Result is the outcome of one file.
type Result struct {
	Uploaded
	Err error // a call.Refusal or a gRPC status; nil means the capability has the file
}

// Uploads is the outcome of a request.
type Uploads struct {
	Files  []Result
	Form   bool
	Fields []string // names of the form's parts without a file, which were not read
}

// Upload sends the file in the body of a request, or the files of a form, to a capability. An error, which is a
// call.Refusal or a gRPC status, concerns the whole request. Upload writes no response.
func (f *Files) Upload(w http.ResponseWriter, r *http.Request, capability string) (all Uploads, err error) {
	if r.ContentLength > f.cfg.MaxSize {
		return all, tooLarge(f.cfg.MaxSize)
	}
	in := newBody(w, r, f.cfg.MaxSize, f.cfg.Stall)
	defer func() { in.finish(err == nil) }()
	ctx := metadata.AppendToOutgoingContext(r.Context(), capabilityHeader, capability)
	boundary, isForm, refusal := boundaryOf(r.Header.Get("Content-Type"))
	if refusal == nil {
		refusal = checkQuery(r.URL.RawQuery, isForm)
	}
	if refusal != nil {
		return all, refusal
	}
	if isForm {
		return f.form(ctx, in, boundary)
	}
	up := Uploaded{ContentType: rawType(r.Header.Get("Content-Type"))}
	if up.Filename, refusal = nameIn(r); refusal != nil {
		return all, refusal
	}
	whole := func(sum Sum) error {
		if !sum.agrees(r.Header) || !sum.agrees(r.Trailer) {
			return mismatch()
		}
		return nil
	}
	if err := f.send(ctx, &up, in, upload{answered: in.end, whole: whole}); err != nil {
		return all, err
	}
	all.Files = []Result{{Uploaded: up}}
	return all, nil
}

// rawType returns the type of a raw body. curl sends a form's type for any body.
func rawType(said string) string {
	if clean := mediaType(said); clean != "application/x-www-form-urlencoded" {
		return clean
	}
	return anyType
}

// upload has the callbacks of an upload.
type upload struct {
	answered func()          // called at the end of the call, possibly from another goroutine
	whole    func(Sum) error // called after the last chunk; an error cancels the upload
}

// send sends one file to a capability, and completes up. If the file is cut off, the call is canceled, so that the
// file is never stored.
func (f *Files) send(ctx context.Context, up *Uploaded, in io.Reader, u upload) error {
	ctx, cancel := context.WithCancel(ctx)
	stream, err := f.client.UploadInputArtifact(ctx)
	if err != nil {
		cancel()
		return err
	}
	answer := awaitAnswer(stream, u.answered)
	early, err := f.pump(stream, up, in, answer)
	if err == nil && !early {
		if err = u.whole(up.SHA256); err == nil {
			err = stream.CloseSend()
		}
	}
	if err != nil {
		cancel()
	}
	<-answer.told
	cancel()
	if err != nil {
		return err
	}
	return answer.read(up, early)
}

// pump sends in, chunk by chunk, until it ends, or the capability has responded before that. An error is that of in.
func (f *Files) pump(stream grpc.ClientStreamingClient[docpb.UploadInputArtifactChunk,
	docpb.UploadInputArtifactResponse], up *Uploaded, in io.Reader, a *answer) (early bool, err error) {
	sum := sha256.New()
	buf := make([]byte, chunkBytes) // reused, because sending copies it
	for first := true; ; first = false {
		n, err := fill(in, buf)
		last := err == io.EOF
		switch {
		case isStalled(err): // net/http cancels the call with it, so the response would only report that
			return false, err
		case a.came():
			return true, nil
		case err != nil && !last:
			return false, err
		}
		if n > 0 || first { // an empty file is one empty chunk
			_, _ = sum.Write(buf[:n]) // never fails
			up.Size += int64(n)
			chunk := &docpb.UploadInputArtifactChunk{Data: buf[:n]}
			if first {
				chunk.Filename, chunk.MimeType = up.Filename, up.ContentType
			}
			if stream.Send(chunk) != nil {
				<-a.done // the response has the reason
				return true, nil
			}
		}
		if last {
			sum.Sum(up.SHA256[:0])
			return false, nil
		}
	}
}

// fill reads until buf is full or in ends. Unlike io.ReadFull, it returns in's errors unchanged.
func fill(in io.Reader, buf []byte) (n int, err error) {
	for n < len(buf) && err == nil {
		var more int
		more, err = in.Read(buf[n:])
		n += more
	}
	return n, err
}

// answer is a capability's response to an upload.
type answer struct {
	done  chan struct{} // closed when the response is complete
	told  chan struct{} // closed when all waiters have been notified
	reply docpb.UploadInputArtifactResponse
	err   error
}

// awaitAnswer waits for the response during the upload, because a capability may respond early. It ends with the
// stream.
func awaitAnswer(stream grpc.ClientStream, answered func()) *answer {
	a := &answer{done: make(chan struct{}), told: make(chan struct{})}
	go func() {
		defer close(a.told)
		a.err = recovery.Do("upload", func() error { return stream.RecvMsg(&a.reply) })
		close(a.done)
		recovery.Round("upload", answered)
	}()
	return a
}

// came reports whether the response has arrived.
func (a *answer) came() bool {
	select {
	case <-a.done:
		return true
	default:
		return false
	}
}

// read returns the result of a response. early is true if it arrived before the end of the file.
func (a *answer) read(up *Uploaded, early bool) error {
	switch {
	case a.err != nil:
		return a.err
	case a.reply.GetError() != "":
		return refusedByCapability(call.Unknown, a.reply.GetError())
	case early, a.reply.GetCapabilityArtifactId() == "":
		return unread()
	}
	up.ID = a.reply.GetCapabilityArtifactId()
	return nil
}
