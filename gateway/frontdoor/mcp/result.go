package mcp

import (
	"bytes"
	"cmp"
	"strings"
	"unicode/utf8"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	grpcstatus "google.golang.org/grpc/status"

	"github.com/capgate/capgate/gateway/dialect"
	"github.com/capgate/capgate/gateway/frontdoor/problem"
	"github.com/capgate/capgate/gateway/status"
	"github.com/capgate/capgate/internal/lib/plainjson"
	"github.com/capgate/capgate/internal/lib/strictjson"
	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
	docpb "github.com/capgate/capgate/proto/selu/capability"
)

// callResult is the result of tools/call. The SDK's type would decode and encode the structured content again.
type callResult struct {
	sdk.ResultBase
	text       []byte        // first content; nil means none
	items      []byte        // JSON of further contents, separated by commas; nil means none
	more       []sdk.Content // further contents
	structured []byte        // JSON; nil means none
	failed     bool          // the content is a tool's own error
	stateless  bool          // for a client of a revision without sessions
}

// newResult returns a result with one text; empty means none.
func newResult(text []byte, stateless bool) *callResult {
	return &callResult{text: text, stateless: stateless}
}

// failed returns the result of a call with a tool's own error, for a model.
func failed(text string, stateless bool) *callResult {
	return &callResult{text: []byte(text), failed: true, stateless: stateless}
}

// failedWith returns the result of a call whose tool responded with a status: its code, message and details.
func failedWith(err error, stateless bool) *callResult {
	p := problem.Of(err)
	r := failed(p.Code+": "+cmp.Or(p.Detail, "the tool gave no reason"), stateless)
	if len(p.Details) > 0 {
		text, _ := plainjson.Marshal(p.Details) // the details are JSON
		r.more = append(r.more, &sdk.TextContent{Text: string(text)})
	}
	return r
}

// resultURI identifies a result that is neither JSON nor text.
const resultURI = "capgate:result"

// resultOf returns the response of a capability in the form of MCP. JSON becomes structured content, and also text;
// before 2026-07-28, structured content must be an object.
func resultOf(reply *docpb.InvokeResponse, stateless bool) *callResult {
	return resultIn(new(callResult), reply, stateless)
}

// resultIn is resultOf in the memory of an empty result.
func resultIn(r *callResult, reply *docpb.InvokeResponse, stateless bool) *callResult {
	data := reply.GetResultJson()
	if reply.GetError() != "" {
		r := failed(reply.GetError(), stateless)
		if len(data) > 0 && utf8.Valid(data) {
			r.more = append(r.more, &sdk.TextContent{Text: string(data)})
		}
		return r
	}
	isJSON := strictjson.Check(data) == nil // and thus UTF-8
	if !isJSON && !utf8.Valid(data) {
		return &callResult{stateless: stateless, more: []sdk.Content{&sdk.EmbeddedResource{
			Resource: &sdk.ResourceContents{URI: resultURI, MIMEType: "application/octet-stream", Blob: data}}}}
	}
	r.text, r.stateless = data, stateless
	if isJSON && (stateless || bytes.HasPrefix(bytes.TrimLeft(data, " \t\r\n"), []byte("{"))) {
		r.structured = data
	}
	return r
}

// isArgumentError reports whether a call was refused because of invalid arguments. It is returned as a tool's error,
// so that a model can correct them (2025-11-25, Tools, "Error Handling").
func isArgumentError(err error) bool {
	switch status.InfoOf(err).GetReason() {
	case "ARGUMENTS_INVALID", "AMBIGUOUS_ARGUMENTS":
		return true
	}
	return false
}

// argumentError returns the result of such a call. The reason, and the position in the metadata, are in _meta for
// programs.
func argumentError(err error, stateless bool) *callResult {
	r, info := failed(grpcstatus.Convert(err).Message(), stateless), status.InfoOf(err)
	r.Meta = sdk.Meta{metaError: map[string]any{"reason": info.GetReason(), "metadata": info.GetMetadata()}}
	return r
}

// conforming returns a result that matches the schema of the tool's results, if the client was sent one (2025-06-18,
// Tools, "Output Schema"). Any other result becomes an error with the same content: a client that checks results would
// not show it to its model, and a retry would repeat the call.
func conforming(i *invocation, r *callResult) *callResult {
	schema := i.results.Schema
	if !promises(schema, i.stateless) || r.failed {
		return r
	}
	wrong := "it has no structured content"
	if r.structured != nil {
		v := schema.CheckResult(i.exchange.r.Context(), r.structured)
		if v == nil {
			return r
		}
		wrong = v.Error()
	}
	return r.mismatched("The result of the tool does not match its output schema: " + wrong +
		". The call was made; do not repeat it for this reason.")
}

// mismatched returns the result as an error. Its content starts with the reason.
func (r *callResult) mismatched(text string) *callResult {
	if len(r.text) > 0 {
		r.more = append([]sdk.Content{&sdk.TextContent{Text: string(r.text)}}, r.more...)
	}
	r.text, r.structured, r.failed = []byte(text), nil, true
	return r
}

// linkVersion is the first revision with links to resources.
const linkVersion = "2025-06-18"

// links returns the files that a result names, each with a signed URL that lets anyone download it for a limited time.
// A file that the caller may not sign has no link. An older client gets text.
func (h *Handler) links(i *invocation, result []byte) (all []sdk.Content) {
	ctx := i.exchange.r.Context() // without the idempotency key of the call
	for _, id := range dialect.Named(result) {
		signed, err := h.files.SignUrl(ctx, &capgatepb.SignUrlRequest{CapabilityId: i.req.GetCapabilityId(),
			ArtifactId: id, SessionId: i.req.GetSessionId()})
		if err != nil {
			continue
		}
		address := signed.GetUrl()
		if strings.HasPrefix(address, "/") {
			address = h.Base(i.exchange.r) + address
		}
		until := "until " + signed.GetExpireTime()
		if i.exchange.read.version < linkVersion {
			all = append(all, &sdk.TextContent{Text: "File " + id + ", " + until + ": " + address})
			continue
		}
		all = append(all, &sdk.ResourceLink{URI: address, Name: id, Description: "A file of the result, " + until +
			"."})
	}
	return all
}
