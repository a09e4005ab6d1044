package files

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"strings"

	"github.com/capgate/capgate/internal/call"
)

// boundaryOf returns the boundary of a multipart form.
func boundaryOf(contentType string) (boundary string, isForm bool, refusal *call.Refusal) {
	typ, params, err := mime.ParseMediaType(contentType)
	begin, _, _ := strings.Cut(contentType, ";")
	switch {
	case typ != formType && !strings.EqualFold(strings.TrimSpace(begin), formType):
		return "", false, nil
	case err != nil || params["boundary"] == "" || len(params["boundary"]) > 70: // RFC 2046 §5.1.1
		return "", true, badForm("the form's Content-Type names no boundary, or no good one; let the HTTP client write " +
			"that header")
	}
	return params["boundary"], true, nil
}

const formType = "multipart/form-data"

// form uploads the files of a form, one after the other. Fields that are not files are skipped. A problem before
// the first file is an error of the whole request; so is the gateway's own error for the first file, because all
// files would get it.
func (f *Files) form(ctx context.Context, in *body, boundary string) (results []Result, err error) {
	parts := multipart.NewReader(in, boundary)
	for err == nil {
		var part *multipart.Part
		if part, err = parts.NextPart(); err == io.EOF && len(results) == 0 {
			const none = "the form has no file: a part that is one has a filename in its Content-Disposition"
			return nil, badForm(none)
		}
		if err == io.EOF {
			return results, nil
		}
		if err != nil {
			break
		}
		if part.FileName() == "" {
			continue
		}
		if len(results) == maxFiles {
			err = begun(badForm(fmt.Sprintf("the form has more than %d files; those that follow were not read", maxFiles)))
			break
		}
		var r Result
		if r, err = f.part(ctx, part); r.Err != nil && len(results) == 0 && !ofTheFile(r.Err) {
			return nil, r.Err
		}
		results = append(results, r)
	}
	if err = formError(err); len(results) == 0 {
		return nil, err
	}
	if results[len(results)-1].Err == nil { // else it is that file's
		results = append(results, Result{Err: err})
	}
	return results, nil
}

// part uploads one file. An error means that the body cannot be read any further.
func (f *Files) part(ctx context.Context, part *multipart.Part) (r Result, err error) {
	r.Filename, r.ContentType = cleanName(part.FileName()), mediaType(part.Header.Get("Content-Type"))
	in := &partReader{part: part}
	r.Err = f.send(ctx, &r.Uploaded, in, upload{answered: func() {}, whole: func(Sum) error { return nil }})
	if in.err != nil && r.Err != nil {
		return r, in.err
	}
	return r, nil
}

// partReader reads a part of a form, and keeps what else than its end was its end.
type partReader struct {
	part *multipart.Part
	err  error
}

func (p *partReader) Read(b []byte) (int, error) {
	n, err := p.part.Read(b)
	if err != nil && err != io.EOF {
		p.err = formError(err)
		err = p.err
	}
	return n, err
}

// formError is what went wrong with the body of a form.
func formError(err error) error {
	refusal := (*call.Refusal)(nil)
	switch {
	case errors.As(err, &refusal):
		return refusal
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return broken()
	}
	return begun(badForm("the form cannot be read: it is not as RFC 7578 has it"))
}

// ofTheFile reports whether an error concerns only one file: the capability's own errors, and a file that is too
// large.
func ofTheFile(err error) bool {
	refusal := (*call.Refusal)(nil)
	return errors.As(err, &refusal) && (refusal.Kind == call.Unknown || refusal.Kind == call.DataLoss)
}
