package mcp

import (
	"bytes"
	"encoding/json"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	docpb "github.com/capgate/capgate/proto/selu/capability"
)

// relayed returns the response of an MCP server in its original form (docs/systems/mcp.md, "Calls"). rest is the JSON
// of the fields that the reply lacks.
func relayed(reply *docpb.InvokeResponse, rest []byte, stateless bool) *callResult {
	r := restored(reply, stateless)
	var of struct {
		Content    json.RawMessage            `json:"content"`
		Structured json.RawMessage            `json:"structuredContent"`
		Meta       map[string]json.RawMessage `json:"_meta"`
	}
	if len(rest) == 0 || json.Unmarshal(rest, &of) != nil {
		return r
	}
	if of.Content != nil {
		r.text, r.more, r.items = nil, nil, itemsOf(of.Content)
	}
	if isStructured(of.Structured, stateless) {
		r.structured = of.Structured
	}
	for key, value := range of.Meta {
		if r.Meta == nil {
			r.Meta = sdk.Meta{}
		}
		r.Meta[key] = value
	}
	return r
}

// restored returns a reply in the form before its conversion to one of a capability: a string is text, an object with
// content has both, and anything else is structured content.
func restored(reply *docpb.InvokeResponse, stateless bool) *callResult {
	data := reply.GetResultJson()
	if reply.GetError() != "" || len(data) == 0 {
		return resultOf(reply, stateless)
	}
	var text string
	switch {
	case string(data) == "null":
		return newResult(nil, stateless)
	case data[0] == '"' && json.Unmarshal(data, &text) == nil:
		return newResult([]byte(text), stateless)
	}
	var members map[string]json.RawMessage
	if json.Unmarshal(data, &members) != nil || !bytes.HasPrefix(members["content"], []byte("[")) {
		return resultOf(reply, stateless)
	}
	structured, both := members["structuredContent"]
	if both != (len(members) == 2) || len(members) > 2 {
		return resultOf(reply, stateless)
	}
	r := &callResult{items: itemsOf(members["content"]), stateless: stateless}
	if isStructured(structured, stateless) {
		r.structured = structured
	}
	return r
}

// itemsOf returns the items of a JSON array, with the commas between them.
func itemsOf(array json.RawMessage) []byte { return bytes.TrimSpace(array[1 : len(array)-1]) }

// isStructured reports whether JSON may be structured content: before 2026-07-28, it must be an object.
func isStructured(text []byte, stateless bool) bool {
	return len(text) > 0 && (stateless || text[0] == '{')
}
