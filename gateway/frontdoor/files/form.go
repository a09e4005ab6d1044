package files

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"strings"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/untrusted"
)

// boundaryOf returns the boundary of a multipart form.
func boundaryOf(contentType string) (boundary string, isForm bool, refusal *call.Refusal) {
	typ, params, err := mime.ParseMediaType(contentType)
	begin, _, _ := strings.Cut(contentType, ";")
	switch {
	case typ != formType && !strings.EqualFold(strings.TrimSpace(begin), formType):
		return "", false, nil
	case err != nil || params["boundary"] == "" || len(params["boundary"]) > 70: // RFC 2046 §5.1.1
		return "", true, badForm("the form's Content-Type has no valid boundary; let the HTTP client set that header")
	}
	return params["boundary"], true, nil
}

const formType = "multipart/form-data"

// form uploads the files of a form one after the other, and lists the fields without a file. A problem before the
// first file is an error of the whole request; so is the gateway's own error for the first file, because it would
// apply to all files.
func (f *Files) form(ctx context.Context, in *body, boundary string) (all Uploads, err error) {
	all.Form = true
	parts := multipart.NewReader(in, boundary)
	for err == nil {
		var part *multipart.Part
		if part, err = parts.NextPart(); err == io.EOF && len(all.Files) == 0 {
			const none = "the form has no file: a file needs a filename in its Content-Disposition; " +
				"curl sends a file with -F name=@path"
			return all, badForm(none)
		}
		if err == io.EOF {
			return all, nil
		}
		if err != nil {
			break
		}
		if len(all.Files) == maxFiles || len(all.Fields) == maxFiles {
			err = begun(badForm(fmt.Sprintf("the form has more than %d files; the following ones were not read",
				maxFiles)))
			break
		}
		var p formPart
		if p, err = readPart(part); err != nil || p.kind == noPart {
			continue
		}
		if p.kind == fieldPart {
			all.Fields = append(all.Fields, shorten(untrusted.UTF8(part.FormName())))
			continue
		}
		var r Result
		if r, err = f.part(ctx, &p); r.Err != nil && len(all.Files) == 0 && !ofTheFile(r.Err) {
			return all, r.Err
		}
		all.Files = append(all.Files, r)
	}
	if err = formError(err); len(all.Files) == 0 {
		return all, err
	}
	if all.Files[len(all.Files)-1].Err == nil { // otherwise the error concerns that file
		all.Files = append(all.Files, Result{Err: err})
	}
	return all, nil
}

// Kinds of parts.
const (
	filePart  = iota
	fieldPart // text, such as from other inputs of a page
	noPart    // an empty filename without content, which pages send for an input without a chosen file
)

// formPart is a part of a form.
type formPart struct {
	kind    int
	name    string // clean name of the file; empty means none
	typ     string // media type
	raw     *partReader
	content io.Reader     // decoded
	refusal *call.Refusal // for this file; nil means it is read
}

// readPart reads the headers of a part. A file has a filename, which may be empty, or a content type other than that
// of a page's text fields.
func readPart(part *multipart.Part) (p formPart, err error) {
	said := part.Header.Get("Content-Type")
	p.raw = &partReader{part: part}
	first := make([]byte, 1)
	n, err := io.ReadFull(p.raw, first)
	if err != nil && err != io.EOF {
		return p, err
	}
	p.typ, p.content = mediaType(said), io.MultiReader(bytes.NewReader(first[:n]), p.raw)
	name, named, readable := nameOf(part.Header.Get("Content-Disposition"))
	p.name = cleanName(name)
	typ, _, _ := strings.Cut(strings.ToLower(said), ";")
	typ = strings.TrimSpace(typ)
	switch {
	case !readable:
		p.refusal = badForm("the Content-Disposition of a part is invalid; want form-data; name=\"file\"; " +
			"filename=\"report.pdf\", and filename* in UTF-8")
	case named && name == "" && n == 0:
		p.kind = noPart
	case name == "" && strings.HasPrefix(typ, "multipart/"):
		p.refusal = badForm("the part " + call.Quote(part.FormName()) + " contains several files in a nested body; " +
			"send each file as a part of the form")
	case !named && (typ == "" || typ == "text/plain"):
		p.kind = fieldPart
	default:
		p.decode(part)
	}
	return p, nil
}

// decode decodes the content (RFC 2045 §6). multipart.Part has already decoded quoted-printable.
func (p *formPart) decode(part *multipart.Part) {
	switch coding := strings.ToLower(strings.TrimSpace(part.Header.Get("Content-Transfer-Encoding"))); coding {
	case "", "binary", "8bit", "7bit":
	case "base64":
		p.content = base64Reader{base64.NewDecoder(base64.StdEncoding, p.content)}
	default:
		p.refusal = badForm("the part " + call.Quote(part.FormName()) +
			" has an unknown Content-Transfer-Encoding; send the file without one")
	}
}

// base64Reader converts the decoder's errors to refusals of the file.
type base64Reader struct{ in io.Reader }

// Read implements io.Reader.
func (b base64Reader) Read(p []byte) (int, error) {
	n, err := b.in.Read(p)
	if refusal := (*call.Refusal)(nil); err != nil && err != io.EOF && !errors.As(err, &refusal) {
		err = begun(badForm("a part is not base64, although its Content-Transfer-Encoding says so"))
	}
	return n, err
}

// part uploads one file. An error means that the rest of the body cannot be read.
func (f *Files) part(ctx context.Context, p *formPart) (r Result, err error) {
	r.Filename, r.ContentType = p.name, p.typ
	if p.refusal != nil {
		r.Err = p.refusal
		return r, nil
	}
	r.Err = f.send(ctx, &r.Uploaded, p.content, upload{answered: func() {}, whole: func(Sum) error { return nil }})
	if p.raw.err != nil && r.Err != nil {
		return r, p.raw.err
	}
	return r, nil
}

// partReader reads a part of a form, and keeps the error that ended it other than io.EOF.
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

// formError returns the refusal for an error in the body of a form.
func formError(err error) error {
	refusal := (*call.Refusal)(nil)
	switch {
	case errors.As(err, &refusal):
		return refusal
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return broken()
	}
	return begun(badForm("the form is invalid: it does not follow RFC 7578"))
}

// ofTheFile reports whether an error concerns only one file: the capability's own errors, and a file that is too
// large.
func ofTheFile(err error) bool {
	refusal := (*call.Refusal)(nil)
	return errors.As(err, &refusal) && (refusal.Kind == call.Unknown || refusal.Kind == call.DataLoss)
}
