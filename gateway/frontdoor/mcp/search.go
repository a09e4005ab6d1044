package mcp

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"unicode"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// The tools that stand for all tools of a caller who has many.
const (
	searchTools = "search_tools"
	callTool    = "call_tool"
)

const (
	maxQuery     = 1 << 10 // bytes of a query
	maxFound     = 50      // tools in one answer
	defaultFound = 10
)

// searches reports whether the caller of a request gets the two tools in place of all.
func (h *Handler) searches(r *http.Request) bool {
	of := h.settings.Load().Search
	return len(of) > 0 && (slices.Contains(of, "*") || slices.Contains(of, h.cfg.Tenant(r)))
}

// searchList returns the two tools.
func searchList() []*sdk.Tool {
	return []*sdk.Tool{
		{Name: searchTools, Description: "Finds tools by words of their names and descriptions. It returns their names, " +
			"descriptions and input schemas. Call one of them with " + callTool + ".",
			Annotations: hintsOf(&Tool{ReadOnly: true, Idempotent: true}),
			InputSchema: json.RawMessage(`{"type":"object","properties":{"query":{"type":"string","description":` +
				`"words to look for"},"limit":{"type":"integer","minimum":1,"maximum":50,"default":10}},"required":["query"]}`)},
		{Name: callTool, Description: "Calls a tool that " + searchTools + " has found.",
			Annotations: &sdk.ToolAnnotations{},
			InputSchema: json.RawMessage(`{"type":"object","properties":{"name":{"type":"string","description":` +
				`"name of the tool"},"arguments":{"type":"object","description":"as its input schema has them"}},` +
				`"required":["name"]}`)},
	}
}

// inner replaces the params of call_tool by those of the tool that it calls.
func inner(p *sdk.CallToolParamsRaw) (*sdk.CallToolParamsRaw, *refusal) {
	var of struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	}
	if err := json.Unmarshal(p.Arguments, &of); err != nil || of.Name == "" {
		return nil, badSearch("call_tool has the arguments name, a text, and arguments, an object")
	}
	q := *p
	q.Name, q.Arguments = of.Name, of.Arguments
	return &q, nil
}

func badSearch(detail string) *refusal {
	return refused(http.StatusBadRequest, jsonrpc.CodeInvalidParams, "INVALID_BODY", detail)
}

// found is a tool in an answer of search_tools.
type found struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	InputSchema json.RawMessage `json:"inputSchema"`
	score       int
}

// search answers search_tools with the tools that the caller may use and that have the most words of the query.
func (h *Handler) search(ctx context.Context, x *exchange, p *sdk.CallToolParamsRaw) (sdk.Result, *refusal) {
	of := struct {
		Query string `json:"query"`
		Limit int    `json:"limit"`
	}{Limit: defaultFound}
	if err := json.Unmarshal(p.Arguments, &of); err != nil || len(of.Query) > maxQuery || of.Limit < 1 ||
		of.Limit > maxFound {
		return nil, badSearch("search_tools has the arguments query, a text of at most 1 KiB, and limit, 1 to 50")
	}
	words, all, names := wordsOf(of.Query), []found{}, h.settings.Load().Names
	err := h.cfg.Catalog.Tools(ctx, "", func(capability string, tools []Tool) bool {
		for i := range tools {
			name, ok := names.Of(capability, tools[i].Name, h.cfg.Catalog.Known)
			if score := scoreOf(words, name, tools[i].Description); ok && score > 0 {
				schema := objectSchema(tools[i].InputSchema)
				all = append(all, found{name, tools[i].Description, schema, score})
			}
		}
		return true
	})
	if err != nil {
		return nil, h.refusalOf(x.r, err)
	}
	slices.SortStableFunc(all, func(a, b found) int { return cmp.Compare(b.score, a.score) })
	text, err := json.Marshal(map[string]any{"tools": all[:min(len(all), of.Limit)]})
	if err != nil {
		return nil, h.refusalOf(x.r, err)
	}
	r := newResult(text, x.read.isStateless())
	r.structured = text
	return r, nil
}

// wordsOf returns the words of a text in lower case.
func wordsOf(text string) []string {
	return strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
}

// scoreOf counts the words that a tool has. One in its name is worth more than one in its description.
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
