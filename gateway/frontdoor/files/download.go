package files

import (
	"context"
	"crypto/sha256"
	"hash"
	"io"
	"net/http"
	"strconv"
	"strings"

	"google.golang.org/grpc/metadata"

	"github.com/capgate/capgate/gateway/frontdoor/bodybudget"
	docpb "github.com/capgate/capgate/proto/selu/capability"
)

// ahead is the number of bytes that are read before the response starts: the header of a shorter file has its length
// and digest.
const ahead = 64 << 10

// Download serves a GET or HEAD of an artifact. It returns an error, a call.Refusal or a gRPC status, only before the
// response has started. If the file is cut off later, Download panics with http.ErrAbortHandler, which makes net/http
// abort the response, so that clients do not consider it complete.
func (f *Files) Download(w http.ResponseWriter, r *http.Request, capability, id string) error {
	ctx, cancel := context.WithCancel(metadata.AppendToOutgoingContext(r.Context(), capabilityHeader, capability))
	defer cancel()
	stream, err := f.client.DownloadOutputArtifact(ctx, &docpb.DownloadOutputArtifactRequest{ArtifactId: id})
	if err != nil {
		return err
	}
	in := &source{stream: stream}
	if r.Method == http.MethodHead {
		return head(w, r, in)
	}
	out := &sink{w: bodybudget.WriteTimeout(w, f.cfg.Stall), sum: sha256.New()}
	begin, err := first(in)
	if err != nil && err != io.EOF {
		return err
	}
	Describe(w.Header(), r, in.typ, in.name)
	if err == io.EOF {
		tellWhole(w.Header(), int64(len(begin)), sha256.Sum256(begin))
	} else if out.trailers = takesTrailers(r.Header); out.trailers {
		w.Header().Set("Trailer", digestHeader+", "+reprDigest)
	}
	w.WriteHeader(http.StatusOK)
	if !out.all(begin, in, err == io.EOF) {
		panic(http.ErrAbortHandler)
	}
	return nil
}

// first reads the start of the file. io.EOF means that it is the whole file.
func first(in *source) (begin []byte, err error) {
	for len(begin) < ahead && err == nil {
		var piece []byte
		piece, err = in.next()
		begin = append(begin, piece...)
	}
	return begin, err
}

// head serves a HEAD. It reads the whole file, because no RPC returns only its description.
func head(w http.ResponseWriter, r *http.Request, in *source) error {
	sum, size := sha256.New(), int64(0)
	for {
		piece, err := in.next()
		if err != nil && err != io.EOF {
			return err
		}
		_, _ = sum.Write(piece) // never fails
		if size += int64(len(piece)); err == io.EOF {
			Describe(w.Header(), r, in.typ, in.name)
			tellWhole(w.Header(), size, Sum(sum.Sum(nil)))
			w.WriteHeader(http.StatusOK)
			return nil
		}
	}
}

// Disposition is the parameter of a request's query that selects how a browser shows a file.
const Disposition = "disposition"

// Describe sets the headers that are known at the start of a file with this media type and name, which the capability
// has chosen.
func Describe(head http.Header, r *http.Request, typ, name string) {
	typ, how := mediaType(typ), "attachment"
	if r.URL.Query().Get(Disposition) == "inline" && maySee(typ) {
		how = "inline"
	} else {
		head.Set("Content-Security-Policy", "default-src 'none'; sandbox") // in case a browser displays it anyway
	}
	head.Set("Content-Type", typ)
	head.Set("Content-Disposition", disposition(how, cleanName(name)))
	head.Set("X-Content-Type-Options", "nosniff")
	head.Set("Accept-Ranges", "none")
	head.Set("Cache-Control", "private, no-cache, no-transform")
	head.Set("Referrer-Policy", "no-referrer")
}

// tellWhole sets the headers that are known at the end of a file.
func tellWhole(head http.Header, size int64, sum Sum) {
	head.Set("Content-Length", strconv.FormatInt(size, 10))
	sum.tell(head)
}

// takesTrailers reports whether a client accepts trailers. Others receive none, because intermediaries may drop them
// (RFC 9110 §6.5.1).
func takesTrailers(header http.Header) bool {
	for _, line := range header.Values("Te") {
		for one := range strings.SplitSeq(line, ",") {
			if name, _, _ := strings.Cut(strings.TrimSpace(one), ";"); strings.EqualFold(strings.TrimSpace(name),
				"trailers") {
				return true
			}
		}
	}
	return false
}

// sink is the body of a response.
type sink struct {
	w        *bodybudget.Writer
	sum      hash.Hash
	trailers bool
}

// all writes a file to its end. begin is the part that was already read; whole is true if that is the whole file. It
// returns false if the file was cut off or the client has disconnected.
func (o *sink) all(begin []byte, in *source, whole bool) bool {
	for piece := begin; ; {
		if !o.write(piece) {
			return false
		}
		if whole {
			break
		}
		var err error
		if piece, err = in.next(); err != nil && err != io.EOF {
			return false
		}
		whole = err == io.EOF
	}
	if o.trailers {
		Sum(o.sum.Sum(nil)).tell(o.w.Header())
	}
	return true
}

// write fails if the client reads nothing for too long. The time of the capability does not count.
func (o *sink) write(piece []byte) bool {
	_, _ = o.sum.Write(piece) // never fails
	if _, err := o.w.Write(piece); err != nil {
		return false
	}
	o.w.End()
	return true
}
