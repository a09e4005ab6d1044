package mcp

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"

	"github.com/capgate/capgate/gateway/upstream"
	"github.com/capgate/capgate/internal/lib/plainjson"
)

// maxError is how many bytes of a tool's own error are passed on.
const maxError = 16 << 10

// needsInput is the error of a tool that asks back, which no caller could answer.
const needsInput = "the tool asks its caller for input (elicitation or sampling), which capgate does not pass on"

var errNoResult = errors.New("not a result of tools/call")

// toolResult is the result of tools/call in the words of the capability protocol.
type toolResult struct {
	json    []byte
	failure string // the tool's own error; "": none
}

// block is one piece of a result's content.
type block struct {
	Type string  `json:"type"`
	Text *string `json:"text"`
}

// resultOf reads a result: the structured content where there is some and all else is text; the text, where that is
// all; else an object with content, and structuredContent, as MCP has them. Numbers keep their digits.
func resultOf(raw []byte) (*toolResult, error) {
	var r struct {
		Content    []json.RawMessage `json:"content"`
		Structured json.RawMessage   `json:"structuredContent,omitempty"`
		IsError    bool              `json:"isError"`
		Type       string            `json:"resultType"`
		Requests   json.RawMessage   `json:"inputRequests"`
	}
	if err := json.Unmarshal(raw, &r); err != nil || raw[0] != '{' {
		return nil, errNoResult
	}
	if r.Type == "input_required" || len(r.Requests) > 0 {
		return &toolResult{failure: needsInput}, nil
	}
	structured := len(r.Structured) > 0 && string(r.Structured) != "null"
	texts, plain := textsOf(r.Content)
	switch {
	case r.IsError:
		return &toolResult{failure: failureOf(texts, r.Structured)}, nil
	case structured && plain && !looksWhole(r.Structured):
		return &toolResult{json: r.Structured}, nil
	case plain && !structured && len(texts) == 0:
		return &toolResult{json: []byte("null")}, nil
	case plain && !structured:
		text, err := plainjson.Marshal(strings.Join(texts, "\n"))
		return &toolResult{json: text}, err
	}
	whole := struct {
		Content    []json.RawMessage `json:"content"`
		Structured json.RawMessage   `json:"structuredContent,omitempty"`
	}{r.Content, nil}
	if structured {
		whole.Structured = r.Structured
	}
	text, err := plainjson.Marshal(whole)
	return &toolResult{json: text}, err
}

// looksWhole says whether structured content could be taken for an object with content. It becomes a part of one.
func looksWhole(structured json.RawMessage) bool {
	var members map[string]json.RawMessage
	if json.Unmarshal(structured, &members) != nil || len(members) > 2 {
		return false
	}
	_, both := members["structuredContent"]
	return bytes.HasPrefix(members["content"], []byte("[")) && both == (len(members) == 2)
}

// textsOf returns the texts of content, and whether it has nothing else.
func textsOf(content []json.RawMessage) (texts []string, plain bool) {
	plain = true
	for _, raw := range content {
		var b block
		if json.Unmarshal(raw, &b) != nil || b.Type != "text" || b.Text == nil {
			plain = false
			continue
		}
		texts = append(texts, *b.Text)
	}
	return texts, plain
}

// failureOf is a tool's own error.
func failureOf(texts []string, structured json.RawMessage) string {
	text := strings.TrimSpace(strings.Join(texts, "\n"))
	if text == "" && len(structured) > 0 {
		text = string(structured)
	}
	if text == "" {
		return "the tool failed, and does not say why"
	}
	return upstream.Clip(text, maxError)
}
