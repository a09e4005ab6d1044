package mcp

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/capgate/capgate/internal/lib/plainjson"
	"github.com/capgate/capgate/internal/lib/untrusted"
)

// maxError is the maximum length of a tool's own error, in bytes.
const maxError = 16 << 10

// needsInput is the error of a tool, a prompt or a resource that requests input, which its caller cannot provide.
const needsInput = "the tool requests input from its caller (elicitation, sampling or roots), which this client does " +
	"not offer, or mcp_server.questions does not allow"

var errNoResult = errors.New("not a result of tools/call")

// toolResult is the result of tools/call in the form of the capability protocol.
type toolResult struct {
	json    []byte
	failure string // the tool's own error; empty means none
	rest    []byte // JSON of the remaining fields of the result, see rest; nil means none
	input   *input // the result is a request for input; nil means it is not
	task    bool   // the result is a task (2026-07-28)
}

// rest holds the members of a result that the capability protocol lacks. MCP clients receive them.
type rest struct {
	Input      *input             `json:"input,omitempty"`
	Content    *[]json.RawMessage `json:"content,omitempty"`
	Structured json.RawMessage    `json:"structuredContent,omitempty"`
	Meta       json.RawMessage    `json:"_meta,omitempty"`
}

// block is an element of a result's content.
type block struct {
	Type string  `json:"type"`
	Text *string `json:"text"`
}

// result is a result of tools/call.
type result struct {
	Content    []json.RawMessage `json:"content"`
	Structured json.RawMessage   `json:"structuredContent"`
	IsError    bool              `json:"isError"`
	Meta       json.RawMessage   `json:"_meta"`
	Type       string            `json:"resultType"`
	Requests   json.RawMessage   `json:"inputRequests"`
	State      string            `json:"requestState"`
}

// requestsInput reports whether a result is a request for input.
func (r *result) requestsInput() bool { return r.Type == "input_required" || len(r.Requests) > 0 }

// requested returns the request for input.
func (r *result) requested() *toolResult {
	return &toolResult{failure: needsInput, input: &input{raw: r.Requests, State: r.State}}
}

// resultOf converts a result: to the structured content, if everything else is text; to the text, if there is nothing
// else; otherwise to an object with content and structuredContent, as in MCP. Numbers keep their digits. If whole is
// true, the rest is included.
func resultOf(raw []byte, whole bool) (*toolResult, error) {
	var r result
	if err := json.Unmarshal(raw, &r); err != nil || raw[0] != '{' {
		return nil, errNoResult
	}
	if r.requestsInput() {
		return r.requested(), nil
	}
	if r.Type == "task" {
		return &toolResult{task: true}, nil
	}
	if string(r.Structured) == "null" {
		r.Structured = nil
	}
	t, more, err := r.read()
	if err != nil || !whole {
		return t, err
	}
	if more.Meta = foreign(r.Meta); more.Content == nil && more.Structured == nil && more.Meta == nil {
		return t, nil
	}
	if t.rest, err = plainjson.Marshal(more); len(t.json)+len(t.rest) > maxWhole {
		t.rest = nil
	}
	return t, err
}

// maxWhole is the maximum size of a result with its rest, in bytes. The rest of a longer one is omitted.
const maxWhole = 15 << 20

// read returns the result in the form of the capability protocol, and the content that it lacks.
func (r *result) read() (t *toolResult, more rest, err error) {
	texts, plain := textsOf(r.Content)
	t = new(toolResult)
	switch {
	case r.IsError:
		all := append([]json.RawMessage{}, r.Content...)
		t.failure, more = failureOf(texts, r.Structured), rest{Content: &all, Structured: r.Structured}
	case len(r.Structured) > 0 && plain && !looksWhole(r.Structured):
		t.json = r.Structured
		if len(texts) > 0 {
			more.Content = &r.Content
		}
	case plain && len(r.Structured) == 0 && len(texts) == 0:
		t.json = []byte("null")
	case plain && len(r.Structured) == 0:
		if len(texts) > 1 || texts[0] == "" || !isBare(r.Content[0]) {
			more.Content = &r.Content
		}
		t.json, err = plainjson.Marshal(strings.Join(texts, "\n"))
	default:
		t.json, err = plainjson.Marshal(struct {
			Content    []json.RawMessage `json:"content"`
			Structured json.RawMessage   `json:"structuredContent,omitempty"`
		}{r.Content, r.Structured})
	}
	return t, more, err
}

// isBare reports whether a text has no annotations or other fields.
func isBare(text json.RawMessage) bool {
	var members map[string]json.RawMessage
	return json.Unmarshal(text, &members) == nil && len(members) == 2
}

// foreign returns the _meta of a result without the server's name and the task's id, because the client's server is the
// gateway. It returns nil if nothing is left.
func foreign(meta json.RawMessage) json.RawMessage {
	var members map[string]json.RawMessage
	if json.Unmarshal(meta, &members) != nil || len(members) == 0 {
		return nil
	}
	all := len(members)
	delete(members, sdk.MetaKeyServerInfo)
	delete(members, relatedTask)
	switch len(members) {
	case all:
		return meta
	case 0:
		return nil
	}
	text, err := plainjson.Marshal(members)
	if err != nil {
		return nil
	}
	return text
}

// looksWhole reports whether structured content could be mistaken for an object with content. It then becomes a part
// of one.
func looksWhole(structured json.RawMessage) bool {
	var members map[string]json.RawMessage
	if json.Unmarshal(structured, &members) != nil || len(members) > 2 {
		return false
	}
	_, both := members["structuredContent"]
	return bytes.HasPrefix(members["content"], []byte("[")) && both == (len(members) == 2)
}

// textsOf returns the texts of content, and whether there is no other content.
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

// failureOf returns a tool's own error.
func failureOf(texts []string, structured json.RawMessage) string {
	text := strings.TrimSpace(strings.Join(texts, "\n"))
	if text == "" && len(structured) > 0 {
		text = string(structured)
	}
	if text == "" {
		return "the tool failed without an error message"
	}
	return untrusted.Clip(text, maxError)
}
