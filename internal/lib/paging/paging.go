// Package paging reads and writes the common fields of lists: page_size, page_token and next_page_token
// (AIP-158), and resource names (AIP-122). A token is the position of the next page, in base64.
package paging

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/capgate/capgate/internal/call"
)

// Request is a request for a page.
type Request interface {
	GetPageSize() int32
	GetPageToken() string
}

// Bounds are the bounds of a list's pages.
type Bounds struct {
	Standard, Most int // items of a page: of a request that does not say, and at most
	// Reason of refusals, which name the wrong field in their metadata. If it is empty, a size above Most counts as
	// Most, and refusals have the reasons INVALID_PAGE_SIZE and INVALID_PAGE_TOKEN.
	Reason string
}

// Page is the requested page.
type Page struct {
	Size  int
	After string // position of the item before the page; "": the page is the first
}

// Read returns the page of a request.
func (b Bounds) Read(r Request) (p Page, refusal *call.Refusal) {
	if p.Size, refusal = b.Size(r); refusal != nil {
		return p, refusal
	}
	text, err := base64.RawURLEncoding.DecodeString(r.GetPageToken())
	switch p.After = string(text); {
	case err == nil && utf8.Valid(text): // as each position
		return p, nil
	case b.Reason == "":
		return p, refusedToken
	}
	return p, call.InvalidField(b.Reason, "page_token", "it must be the next_page_token of a response")
}

// Size returns the size of the page of a request, for lists whose tokens are not in base64.
func (b Bounds) Size(r Request) (int, *call.Refusal) {
	size := cmp.Or(int(r.GetPageSize()), b.Standard)
	switch {
	case size >= 0 && size <= b.Most:
		return size, nil
	case b.Reason != "":
		return 0, call.InvalidField(b.Reason, "page_size", fmt.Sprintf("it must be from 0 to %d", b.Most))
	case size < 0:
		return 0, refusedSize
	}
	return b.Most, nil
}

// Unreadable returns the refusal of a parameter of a query that is no number, for Bounds without a reason; nil: the
// parameter is not the size of a page.
func Unreadable(name string) *call.Refusal {
	if name == "page_size" {
		return refusedSize
	}
	return nil
}

var (
	refusedSize = &call.Refusal{Kind: call.InvalidArgument, Reason: "INVALID_PAGE_SIZE",
		Message: "page_size must be a non-negative number"}
	refusedToken = &call.Refusal{Kind: call.InvalidArgument, Reason: "INVALID_PAGE_TOKEN",
		Message: "page_token must be the next_page_token of a response"}
)

// Slice returns the items of a page, and the position of the next page; "" if there is none. All items are sorted by
// their positions.
func Slice[T any](p Page, all []T, position func(T) string) (items []T, next string) {
	from, found := slices.BinarySearchFunc(all, p.After,
		func(item T, after string) int { return strings.Compare(position(item), after) })
	if found {
		from++
	}
	if items = all[from:]; len(items) > p.Size {
		return items[:p.Size], position(items[p.Size-1])
	}
	return items, ""
}

// SliceDescending returns the items of a page that match, and the position of the next page; "" if there is none. All
// items are sorted by their positions, the greatest first.
func SliceDescending[T any](p Page, all []T, position func(*T) string, match func(*T) bool) (items []*T, next string) {
	for i := range all {
		switch item := &all[i]; {
		case p.After != "" && position(item) >= p.After || !match(item):
		case len(items) == p.Size:
			return items, position(items[p.Size-1])
		default:
			items = append(items, item)
		}
	}
	return items, ""
}

// Token returns the next_page_token of a page that ends with last, or "" if no more follow.
func Token(last string) string { return base64.RawURLEncoding.EncodeToString([]byte(last)) }
