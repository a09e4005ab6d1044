package mcp

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"unicode"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/capgate/capgate/internal/lib/strictjson"
	"github.com/capgate/capgate/internal/manifest"
)

// Tools that replace the list of all tools for a caller with many.
const (
	searchTools = "search_tools"
	callTool    = "call_tool"
)

const (
	maxQuery     = 1 << 10 // bytes of a query
	maxFound     = 50      // tools per result
	defaultFound = 10
)

// searches reports whether the caller of a request gets the two tools instead of all.
func (h *Handler) searches(r *http.Request) bool {
	of := h.settings.Load().Search
	return len(of) > 0 && (slices.Contains(of, "*") || slices.Contains(of, h.cfg.Tenant(r)))
}

// searchList returns the two tools.
func searchList() []*listedTool {
	return []*listedTool{
		{Name: searchTools, Description: "Finds tools by words of their names and descriptions. It returns their " +
			"names, descriptions and input schemas. Call one of them with " + callTool + ".",
			Extras: manifest.Extras{Annotations: hintsOf(&Tool{ReadOnly: true, Idempotent: true})},
			InputSchema: json.RawMessage(`{"type":"object","properties":{"query":{"type":"string","description":` +
				`"words to look for"},"limit":{"type":"integer","minimum":1,"maximum":50,"default":10}},` +
				`"required":["query"]}`)},
		{Name: callTool, Description: "Calls a tool that " + searchTools + " has found.",
			InputSchema: json.RawMessage(`{"type":"object","properties":{"name":{"type":"string","description":` +
				`"name of the tool"},"arguments":{"type":"object","description":"as its input schema has them"}},` +
				`"required":["name"]}`)},
	}
}

// inner replaces the params of call_tool with those of the called tool.
func inner(p *sdk.CallToolParamsRaw) (*sdk.CallToolParamsRaw, error) {
	q := *p
	q.Name, q.Arguments = "", nil
	ok := eachMember(p.Arguments, func(name string, v strictjson.Value) bool {
		switch {
		case name == "name" && v.Kind() == strictjson.String:
			q.Name = string(v.Bytes())
		case name == "arguments" && v.Kind() == strictjson.Object:
			q.Arguments = bytes.Clone(v.Raw())
		default:
			return false
		}
		return true
	})
	if !ok || q.Name == "" {
		return nil, invalidParams("call_tool requires the arguments name, a string, and arguments, an object")
	}
	return &q, nil
}

// eachMember calls take for each member of a JSON object, until it returns false. It reports whether the text is an
// object and take has accepted all members.
func eachMember(text []byte, take func(name string, v strictjson.Value) bool) bool {
	reader := strictjson.Get()
	defer reader.Release()
	if reader.Read(text, strictjson.Options{Keep: true}) != nil || reader.Root().Kind() != strictjson.Object {
		return false
	}
	for name, v := range reader.Root().Members() {
		if !take(string(name.Bytes()), v) {
			return false
		}
	}
	return true
}

// found is a tool in a result of search_tools.
type found struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	InputSchema json.RawMessage `json:"inputSchema"`
	manifest.Extras
	score int
}

// search serves search_tools with the tools that the caller may use and that match the most words of the query.
func (h *Handler) search(ctx context.Context, x *exchange, p *sdk.CallToolParamsRaw) (sdk.Result, error) {
	query, limit := "", defaultFound
	ok := eachMember(p.Arguments, func(name string, v strictjson.Value) bool {
		var err error
		switch {
		case name == "query" && v.Kind() == strictjson.String:
			query = string(v.Bytes())
		case name == "limit" && v.Kind() == strictjson.Number:
			limit, err = strconv.Atoi(string(v.Bytes()))
		default:
			return false
		}
		return err == nil
	})
	if !ok || len(query) > maxQuery || limit < 1 || limit > maxFound {
		return nil, invalidParams("search_tools takes the arguments query, a string of at most 1 KiB, and limit, 1 " +
			"to 50")
	}
	words, all := wordsOf(query), []found{}
	err := h.cfg.Catalog.Tools(ctx, "", func(capability string, tools []Tool) bool {
		for i := range tools {
			name, ok := h.nameOf(ctx, capability, tools[i].Name)
			ok = ok && tools[i].Extras.ForModels()
			if score := scoreOf(words, name, tools[i].Description); ok && score > 0 {
				schema := objectSchema(tools[i].InputSchema)
				one := found{Name: name, Description: tools[i].Description, InputSchema: schema, score: score}
				if e := tools[i].Extras; e != nil { // models do not use the others
					one.Title, one.Annotations = e.Title, e.Annotations
				}
				all = append(all, one)
			}
		}
		return true
	})
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(all, func(a, b found) int { return cmp.Compare(b.score, a.score) })
	text, err := json.Marshal(map[string]any{"tools": all[:min(len(all), limit)]})
	if err != nil {
		return nil, err
	}
	r := newResult(text, x.read.isStateless())
	r.structured = text
	return r, nil
}

// wordsOf returns the words of a text in lower case.
func wordsOf(text string) []string {
	return strings.FieldsFunc(strings.ToLower(text), func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r)
	})
}

// scoreOf returns the number of words that match a tool. A match in its name counts more than one in its description.
func scoreOf(words []string, name, description string) (score int) {
	name, description = strings.ToLower(name), strings.ToLower(description)
	for _, w := range words {
		if strings.Contains(name, w) {
			score += 3
		}
		if strings.Contains(description, w) {
			score++
		}
	}
	return score
}
