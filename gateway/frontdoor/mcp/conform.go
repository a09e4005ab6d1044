package mcp

import (
	"encoding/json"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// conforming returns a result that matches the schema of the tool's results, as far as the client was told of one
// (2025-06-18, Tools, "Output Schema"). Any other becomes an error with the same content: a client that checks results
// would not show it to its model, and a repetition would make the call again.
func conforming(i *invocation, result sdk.Result) sdk.Result {
	schema := i.results.Schema
	if !promises(schema, i.stateless) || isError(result) {
		return result
	}
	var structured []byte
	switch r := result.(type) {
	case *callResult:
		structured = r.StructuredContent
	case *relayedResult:
		structured = r.StructuredContent
	}
	wrong := "it has no structured content"
	if structured != nil {
		v := schema.CheckResult(i.exchange.r.Context(), structured)
		if v == nil {
			return result
		}
		wrong = v.Error()
	}
	return mismatched(result, "The result of the tool does not match its output schema: "+wrong+
		". The call was made; do not repeat it for this reason.")
}

// mismatched returns a result as an error. Its content begins with what is wrong with it.
func mismatched(result sdk.Result, text string) sdk.Result {
	notice := &sdk.TextContent{Text: text}
	switch r := result.(type) {
	case *callResult:
		r.StructuredContent, r.IsError = nil, true
		r.Content = append([]sdk.Content{notice}, r.Content...)
	case *relayedResult:
		var content []json.RawMessage
		first, err := json.Marshal(notice)
		if err == nil {
			err = json.Unmarshal(r.Content, &content)
		}
		if err != nil {
			return failed(text, r.ResultType != "")
		}
		whole, err := json.Marshal(append([]json.RawMessage{first}, content...))
		if err != nil {
			return failed(text, r.ResultType != "")
		}
		r.StructuredContent, r.IsError, r.Content = nil, true, whole
	}
	return result
}
