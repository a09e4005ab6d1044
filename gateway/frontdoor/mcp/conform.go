package mcp

import (
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

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
