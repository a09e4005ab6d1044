package search

import (
	"slices"
	"strings"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/paging"
)

// MaxQuery is the length of the longest query, in bytes.
const MaxQuery = 256

// Query is the words of a query, in lower case. The zero value matches every entry.
type Query []string

// Read returns the Query of a request's field query. The reason is that of a refusal of a longer one.
func Read(reason, text string) (Query, *call.Refusal) {
	if len(text) > MaxQuery {
		return nil, call.InvalidField(reason, "query", "it must have at most 256 bytes")
	}
	return strings.Fields(strings.ToLower(text)), nil
}

// Request is a request for a page of the entries that match a query.
type Request interface {
	paging.Request
	GetQuery() string
}

// ReadPage returns the page and the Query of a request, whose refusals have the reason of pages.
func ReadPage(pages paging.Bounds, req Request) (page paging.Page, query Query, refusal *call.Refusal) {
	if page, refusal = pages.Read(req); refusal == nil {
		query, refusal = Read(pages.Reason, req.GetQuery())
	}
	return page, query, refusal
}

// Matches reports whether each word is part of at least one of an entry's texts, in upper or lower case.
func (q Query) Matches(texts ...string) bool {
	for _, word := range q {
		has := func(text string) bool { return strings.Contains(strings.ToLower(text), word) }
		if !slices.ContainsFunc(texts, has) {
			return false
		}
	}
	return true
}
