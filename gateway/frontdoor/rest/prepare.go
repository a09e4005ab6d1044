package rest

import (
	"context"
	"fmt"
	"io"
	"mime"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"

	"github.com/capgate/capgate/gateway/frontdoor/bodybudget"
	"github.com/capgate/capgate/gateway/frontdoor/header"
	"github.com/capgate/capgate/gateway/frontdoor/problem"
	"github.com/capgate/capgate/internal/call"
)

// forwarded lists the request headers that are forwarded as metadata.
var forwarded = append(header.With(header.ToCall), header.Lookup(authorization)) //nolint:gochecknoglobals // a table

const (
	authorization  = "authorization"
	sessionID      = "x-session-id"
	idempotencyKey = "Idempotency-Key"      // a repeated call with the same key is not carried out again
	keyedMetadata  = "idempotency-key"      // grpc-gateway's name for it; see withMetadata
	replayed       = "idempotency-replayed" // metadata of a stored response
	apiKey         = "x-api-key"            // a credential of the gateway; keys of other services are not forwarded
)

// forwardHeader tells grpc-gateway which headers become which metadata. The thread's id is not metadata, but a field
// of the message.
func forwardHeader(name string) (string, bool) {
	f := header.Lookup(name)
	switch f.Name {
	case threadID:
		return threadID, true
	case idempotencyKey:
		return keyedMetadata, true
	}
	return f.Metadata, f.Has(header.ToCall)
}

// body is a request's body. It keeps the decoder's error, which the generated code would reduce to a text.
type body struct {
	io.ReadCloser
	held   *bodybudget.Reservation
	failed error
}

// prepare wraps the generated code of every route.
func (h *Handler) prepare(next runtime.HandlerFunc) runtime.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request, params map[string]string) {
		if lacksName(params) {
			h.unnamed(w, r)
			return
		}
		if p := probeOf(r); p != nil {
			pattern, _ := runtime.HTTPPattern(r.Context())
			p.hit, p.stream, p.fixed = true, onlyStreamed(pattern.String()), fixedParts(pattern.String())
			return
		}
		if pattern, _ := runtime.HTTPPattern(r.Context()); r.Method == http.MethodGet && isHead(r) &&
			onlyStreamed(pattern.String()) {
			w.Header().Set("Allow", strings.Join(h.allowed(r), ", "))
			problem.Write(w, r, problem.MethodNotAllowed())
			return
		}
		if isFile(r) {
			h.prepareFile(next, w, r, params)
			return
		}
		timeout, refused := h.check(r, params)
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
		r.Header = r.Header.Clone()
		r.Header.Del(header.GRPCTimeout) // applied to ctx
		if !call.IsCredential(r.Header.Get(apiKey)) {
			r.Header.Del(apiKey)
		}
		r.Header.Del("Te")                               // otherwise grpc-gateway would send trailers
		r.Header.Set("Content-Type", "application/json") // default type; grpc-gateway rejects a missing one
		if seconds := preferWait(r.Header); seconds != "" && r.Header.Get(approvalWait) == "" {
			r.Header.Set(approvalWait, seconds)
			w.Header().Add("Preference-Applied", "wait="+seconds)
		}
		in := io.ReadCloser(http.NoBody)
		if r.Body != nil && r.Body != http.NoBody {
			in = bodybudget.StallTimeout(w, r.Body, h.cfg.Stall)
		}
		r.Body = http.MaxBytesReader(w, io.NopCloser(in), h.cfg.MaxBody)
		if refused := inflate(r); refused != nil {
			w.Header().Set("Accept-Encoding", "gzip, zstd") // RFC 9110 §15.5.16
			WriteProblem(w, r, refused)
			return
		}
		defer func() { _ = r.Body.Close() }()
		held := bodybudget.FromContext(ctx)
		in = held.Reader(http.MaxBytesReader(w, r.Body, h.cfg.MaxBody), r.ContentLength)
		r = r.WithContext(ctx)
		r.Body = &body{ReadCloser: in, held: held}
		next(conditionally(w, r), r, params)
	}
}

// check validates a request before its body is read. It returns the call's timeout; 0 means none.
func (h *Handler) check(r *http.Request, params map[string]string) (time.Duration, *call.Refusal) {
	for id, v := range params {
		if !utf8.ValidString(v) || v == "" && slices.Contains(h.needed, id) {
			return 0, noSuchPath()
		}
	}
	if !isJSON(r.Header.Get("Content-Type")) {
		return 0, &call.Refusal{Kind: call.InvalidArgument,
			Reason:  "UNSUPPORTED_MEDIA_TYPE",
			Message: "the body must be JSON: send it with Content-Type: application/json"}
	}
	if r.ContentLength > h.cfg.MaxBody {
		return 0, tooLarge(h.cfg.MaxBody)
	}
	return checkHeader(r.Header)
}

// checkHeader validates the headers of any request.
func checkHeader(h http.Header) (time.Duration, *call.Refusal) {
	for name, values := range h {
		if _, ok := forwardHeader(name); !ok && !strings.EqualFold(name, authorization) {
			continue
		}
		for _, v := range values {
			if !header.IsASCII(v) {
				return 0, badHeader(name, "may only contain printable ASCII")
			}
		}
	}
	timeout, err := header.Timeout(h)
	if err != nil {
		return 0, &call.Refusal{Kind: call.InvalidArgument, Reason: "INVALID_HEADER", Message: err.Error()}
	}
	return timeout, nil
}

// isJSON reports whether a body of a type is read as JSON. curl -d sends any body as a form, and many scripts send no
// type.
func isJSON(contentType string) bool {
	if contentType == "" {
		return true
	}
	typ, _, err := mime.ParseMediaType(contentType)
	if err != nil {
		return false
	}
	switch typ {
	case "application/json", "text/json", "application/x-www-form-urlencoded":
		return true
	}
	return strings.HasPrefix(typ, "application/") && strings.HasSuffix(typ, "+json")
}

func badHeader(name, want string) *call.Refusal {
	return &call.Refusal{Kind: call.InvalidArgument, Reason: "INVALID_HEADER",
		Message: fmt.Sprintf("the header %s %s", http.CanonicalHeaderKey(name), want)}
}

func tooLarge(limit int64) *call.Refusal {
	return &call.Refusal{Kind: call.ResourceExhausted, Reason: "BODY_TOO_LARGE",
		Message: fmt.Sprintf("the body is larger than %d bytes; upload large inputs as files (docs/use/files.md)",
			limit)}
}
