package rest

import (
	"context"
	"encoding/hex"
	"net/http"
	"net/url"
	"strconv"
	"unicode/utf8"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/capgate/capgate/gateway/frontdoor/files"
	"github.com/capgate/capgate/gateway/frontdoor/header"
	"github.com/capgate/capgate/gateway/frontdoor/problem"
	"github.com/capgate/capgate/gateway/frontdoor/request"
	"github.com/capgate/capgate/gateway/status"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/plainjson"
)

// Patterns of the file routes. A file's id may contain slashes.
const (
	filesPattern = "/v1/capabilities/{capability_id=*}/artifacts"
	filePattern  = filesPattern + "/{artifact_id=**}"
)

// tooLargeReason is the reason of a file that exceeds its tenant's limit.
const tooLargeReason = "ARTIFACT_TOO_LARGE"

// isFile reports whether a request's body or response is a file, and not JSON.
func isFile(r *http.Request) bool {
	pattern, _ := runtime.HTTPPattern(r.Context())
	return pattern.String() == filesPattern || pattern.String() == filePattern
}

// routeFiles adds the file routes.
func (h *Handler) routeFiles(conn grpc.ClientConnInterface) error {
	h.files = files.New(conn, h.cfg.Files)
	for _, route := range []struct {
		method, pattern string
		serve           runtime.HandlerFunc
	}{
		{http.MethodPost, filesPattern, h.upload},
		{http.MethodGet, filePattern, h.download},
		{http.MethodHead, filePattern, h.download},
	} {
		if err := h.mux.HandlePath(route.method, route.pattern, route.serve); err != nil {
			return err
		}
	}
	return nil
}

// prepareFile is prepare for file routes.
func (h *Handler) prepareFile(next runtime.HandlerFunc, w http.ResponseWriter, r *http.Request,
	params map[string]string) {
	if !header.IsASCII(params["capability_id"]) { // no such capability; the name is invalid in metadata
		WriteProblem(w, r, noSuchPath())
		return
	}
	if !utf8.ValidString(params["artifact_id"]) {
		WriteProblem(w, r, noSuchPath())
		return
	}
	timeout, refused := checkHeader(r.Header)
	if refused != nil {
		WriteProblem(w, r, refused)
		return
	}
	ctx := r.Context()
	if timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	md := metadataOf(r.Header)
	if query := r.URL.Query(); r.Method != http.MethodPost && query.Has(signature) {
		text := query.Get(signature)
		if text == "" || !header.IsASCII(text) {
			text = "-" // not covered by the signature
		}
		md = signedMetadata(r.Header)
		ctx = request.WithCall(ctx, request.Call{Signature: text})
	}
	next(w, r.WithContext(metadata.NewOutgoingContext(ctx, md)), params)
}

// signature is the query parameter of a signed URL.
const signature = "signature"

// ofSigned lists the headers that are forwarded with a signed URL. The signature fixes everything else.
var ofSigned = header.With(header.ToSigned) //nolint:gochecknoglobals // a table

// signedMetadata is metadataOf for a signed URL: the signature is the only credential, whatever else a browser sends.
func signedMetadata(all http.Header) metadata.MD {
	md := metadata.MD{}
	for _, f := range ofSigned {
		if v := all.Values(f.Name); len(v) > 0 {
			md[f.Metadata] = v
		}
	}
	return md
}

// lacksName reports whether a path ends before its name: a pattern with ** also matches the path of the list.
func lacksName(params map[string]string) bool {
	for _, name := range [...]string{"artifact_id", "prompt_name"} {
		if v, ok := params[name]; ok && v == "" {
			return true
		}
	}
	return false
}

// unnamed responds to a request whose path lacks the name, as if no route had the path.
func (h *Handler) unnamed(w http.ResponseWriter, r *http.Request) {
	code := http.StatusNotFound
	if probeOf(r) == nil && len(h.allowed(r)) > 0 {
		code = http.StatusMethodNotAllowed
	}
	h.noRoute(r.Context(), h.mux, nil, w, r, code)
}

// metadataOf returns the metadata of a request's call, from its headers.
func metadataOf(all http.Header) metadata.MD {
	md := metadata.MD{}
	for i := range forwarded {
		name := forwarded[i].Metadata
		if v := all.Values(name); len(v) > 0 && (name != apiKey || call.IsCredential(v[0])) {
			md[name] = v
		}
	}
	return md
}

// uploadedFile is an uploaded file in the response to an upload, or its problem.
type uploadedFile struct {
	ID string `json:"id,omitempty"`
	// Name is the resource name (AIP-122): capabilities/{capability}/artifacts/{id}.
	Name        string           `json:"name,omitempty"`
	Filename    string           `json:"filename,omitempty"`
	ContentType string           `json:"content_type,omitempty"`
	Size        *int64           `json:"size,omitempty"`   // bytes
	SHA256      string           `json:"sha256,omitempty"` // hexadecimal
	Path        string           `json:"path,omitempty"`   // path of its download
	Problem     *problem.Problem `json:"problem,omitempty"`
}

// uploadedFiles is the response to a form.
type uploadedFiles struct {
	Artifacts []uploadedFile `json:"artifacts"`
	Ignored   []string       `json:"ignored,omitempty"` // names of parts without a file
}

func (h *Handler) upload(w http.ResponseWriter, r *http.Request, params map[string]string) {
	uploads, err := h.files.Upload(w, r, params["capability_id"])
	if err != nil {
		h.failFile(w, r, err)
		return
	}
	code, results := http.StatusCreated, uploads.Files
	all := make([]uploadedFile, len(results))
	for i := range results {
		all[i] = h.uploaded(r, params["capability_id"], &results[i])
		if results[i].Err != nil {
			code = http.StatusMultiStatus
		}
	}
	if len(all) == 1 && results[0].Err != nil {
		h.failFile(w, r, results[0].Err)
		return
	}
	if len(all) == 1 {
		w.Header().Set("Location", all[0].Path)
		w.Header().Set("Digest", results[0].SHA256.Digest())
	}
	if !uploads.Form {
		writeJSON(w, code, all[0])
		return
	}
	writeJSON(w, code, uploadedFiles{all, uploads.Fields})
}

func (h *Handler) uploaded(r *http.Request, capability string, result *files.Result) uploadedFile {
	u := uploadedFile{Filename: result.Filename, ContentType: result.ContentType}
	if result.Err != nil {
		p := h.problemOfFile(r, result.Err).In(r)
		u.Problem = &p
		return u
	}
	u.ID, u.Size, u.SHA256 = result.ID, &result.Size, hex.EncodeToString(result.SHA256[:])
	u.Name = "capabilities/" + capability + "/artifacts/" + result.ID
	u.Path = "/v1/capabilities/" + url.PathEscape(capability) + "/artifacts/" + url.PathEscape(result.ID)
	return u
}

func (h *Handler) download(w http.ResponseWriter, r *http.Request, params map[string]string) {
	if err := h.files.Download(w, r, params["capability_id"], params["artifact_id"]); err != nil {
		h.failFile(w, r, err)
	}
}

func (h *Handler) failFile(w http.ResponseWriter, r *http.Request, err error) {
	p := h.problemOfFile(r, err)
	tellQuota(w.Header(), err, &p)
	problem.Write(w, r, p)
}

// problemOfFile returns the problem of a file. A file that is too large for its tenant must not be retried.
func (h *Handler) problemOfFile(r *http.Request, err error) problem.Problem {
	p := h.problemIn(r, err)
	if p.Reason == tooLargeReason && status.InfoOf(err) != nil && r.Method == http.MethodPost {
		p.Status = http.StatusRequestEntityTooLarge
	}
	return p
}

func writeJSON(w http.ResponseWriter, code int, v any) {
	out, err := plainjson.Marshal(v)
	if err != nil { // cannot fail for this type
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	out = append(out, '\n')
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(out)))
	w.WriteHeader(code)
	_, _ = w.Write(out) // the client may have disconnected
}
