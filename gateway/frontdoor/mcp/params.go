package mcp

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/capgate/capgate/internal/lib/strictjson"
)

// A schema may name a header for an argument, so that proxies can read it (2026-07-28, Streamable HTTP, "Custom
// Headers").
const (
	paramAnnotation = "x-mcp-header"
	paramPrefix     = "Mcp-Param-"
)

// maxSafe is the largest integer that every JSON parser reads exactly, 2^53 - 1.
const maxSafe = 1<<53 - 1

// param is a property of a schema.
type param struct {
	Header     json.RawMessage  `json:"x-mcp-header"`
	Properties map[string]param `json:"properties"`
}

// checkParams compares the arguments of a call with the headers that the schema of its tool names for them. The SDK
// only checks tools that are registered with it, and none is.
func (h *Handler) checkParams(r *http.Request, m *message) error {
	if m.tool == "" || !m.isStateless() {
		return nil
	}
	capability, tool, ok := h.toolNamed(r.Context(), m.tool, m.meta.Apps)
	if !ok {
		return nil
	}
	schema := h.cfg.Catalog.Schema(r.Context(), capability, tool)
	if !bytes.Contains(schema, []byte(paramAnnotation)) || !h.cfg.Catalog.Has(r.Context(), capability, tool) {
		return nil
	}
	var top param
	var body struct {
		Params struct {
			Arguments json.RawMessage `json:"arguments"`
		} `json:"params"`
	}
	if strictjson.Unmarshal(schema, &top) != nil || strictjson.Unmarshal(m.body, &body) != nil {
		return nil // the call itself fails
	}
	return top.check(r.Header, body.Params.Arguments)
}

// check compares the properties with the members of an object.
func (p *param) check(header http.Header, object json.RawMessage) error {
	var members map[string]json.RawMessage
	_ = json.Unmarshal(object, &members) // if it is not an object, all members are absent
	for name, property := range p.Properties {
		value := members[name]
		if string(value) == "null" {
			value = nil
		}
		var of string
		if json.Unmarshal(property.Header, &of) == nil && of != "" && !sameParam(header.Values(paramPrefix+of), value) {
			return refused(http.StatusBadRequest, sdk.CodeHeaderMismatch, "MCP_HEADER_MISMATCH",
				"the header "+paramPrefix+of+" does not match the argument in the message")
		}
		if len(property.Properties) > 0 {
			if f := property.check(header, value); f != nil {
				return f
			}
		}
	}
	return nil
}

// sameParam reports whether a header has the value of an argument; nil means absent.
func sameParam(values []string, argument json.RawMessage) bool {
	if argument == nil || len(values) != 1 {
		return argument == nil && len(values) == 0
	}
	text, ok := decodeParam(values[0])
	if !ok {
		return false
	}
	var want any
	if json.Unmarshal(argument, &want) != nil {
		return false
	}
	switch want := want.(type) {
	case string:
		return text == want
	case bool:
		return text == strconv.FormatBool(want)
	case float64:
		got, err := strconv.ParseFloat(text, 64)
		return err == nil && got == want && got == float64(int64(got)) && got <= maxSafe && got >= -maxSafe
	}
	return false
}

// decodeParam returns the text of a header, which may be in base64.
func decodeParam(value string) (text string, ok bool) {
	coded, found := strings.CutPrefix(value, "=?base64?")
	if !found {
		return value, true
	}
	if coded, found = strings.CutSuffix(coded, "?="); !found {
		return value, true
	}
	data, err := base64.StdEncoding.Strict().DecodeString(coded)
	return string(data), err == nil
}
