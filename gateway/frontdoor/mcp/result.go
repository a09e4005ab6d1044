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

// callResult is the result of tools/call. The SDK's own would decode and encode the structured content again.
type callResult struct {
	sdk.ResultBase
	text       []byte        // the first content; nil means none
	items      []byte        // JSON of further ones, with commas between; nil means none
	more       []sdk.Content // further ones
	structured []byte        // JSON; nil means none
	failed     bool          // the content is a tool's own error
	stateless  bool          // it is for a client of a revision without sessions
}

// newResult returns a result of one text; empty means of none.
func newResult(text []byte, stateless bool) *callResult {
	return &callResult{text: text, stateless: stateless}
}

// failed returns the result of a call with a tool's own error, which a model is to read.
func failed(text string, stateless bool) *callResult {
	return &callResult{text: []byte(text), failed: true, stateless: stateless}
}

// failedWith returns the result of a call whose tool has answered with a status: its code and message, and its
// details.
func failedWith(err error, stateless bool) *callResult {
	p := problem.Of(err)
	r := failed(p.Code+": "+cmp.Or(p.Detail, "the tool has not said why"), stateless)
	if len(p.Details) > 0 {
		text, _ := plainjson.Marshal(p.Details) // they are JSON
		r.more = append(r.more, &sdk.TextContent{Text: string(text)})
	}
	return r
}

// resultURI identifies a result that is neither JSON nor text.
const resultURI = "capgate:result"

// resultOf returns the answer of a capability as MCP has it. JSON is structured content, and a text besides; before
// 2026-07-28, structured content is an object.
func resultOf(reply *docpb.InvokeResponse, stateless bool) *callResult {
	data := reply.GetResultJson()
	if reply.GetError() != "" {
		r := failed(reply.GetError(), stateless)
		if len(data) > 0 && utf8.Valid(data) {
			r.more = append(r.more, &sdk.TextContent{Text: string(data)})
		}
		return r
	}
	if !utf8.Valid(data) {
		return &callResult{stateless: stateless, more: []sdk.Content{&sdk.EmbeddedResource{
			Resource: &sdk.ResourceContents{URI: resultURI, MIMEType: "application/octet-stream", Blob: data}}}}
	}
	r := newResult(data, stateless)
	if strictjson.Check(data) == nil && (stateless || bytes.HasPrefix(bytes.TrimLeft(data, " \t\r\n"), []byte("{"))) {
		r.structured = data
	}
	return r
}

// isArgumentError reports whether a call was refused for arguments that its tool does not take. It is a tool's error,
// so that a model can send others (2025-11-25, Tools, "Error Handling").
func isArgumentError(err error) bool {
	switch status.InfoOf(err).GetReason() {
	case "ARGUMENTS_INVALID", "AMBIGUOUS_ARGUMENTS":
		return true
	}
	return false
}

// argumentError returns the result of such a call. Programs find the reason, and the place in the metadata, in _meta.
func argumentError(err error, stateless bool) *callResult {
	r, info := failed(grpcstatus.Convert(err).Message(), stateless), status.InfoOf(err)
	r.Meta = sdk.Meta{metaError: map[string]any{"reason": info.GetReason(), "metadata": info.GetMetadata()}}
	return r
}

// conforming returns a result that matches the schema of the tool's results, as far as the client was told of one
// (2025-06-18, Tools, "Output Schema"). Any other becomes an error with the same content: a client that checks results
// would not show it to its model, and a repetition would make the call again.
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

// mismatched returns the result as an error. Its content begins with what is wrong with it.
func (r *callResult) mismatched(text string) *callResult {
	if len(r.text) > 0 {
		r.more = append([]sdk.Content{&sdk.TextContent{Text: string(r.text)}}, r.more...)
	}
	r.text, r.structured, r.failed = []byte(text), nil, true
	return r
}

// linkVersion is the first revision with links to resources.
const linkVersion = "2025-06-18"

// links returns the files that a result names, each with a signed URL at which anybody may download it for a while. A
// file that the caller may not sign has no link. An older client gets a text.
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
			address = h.base(i.exchange.r) + address
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
