// Package paging reads and writes the common fields of lists: page_size, page_token and next_page_token
// (AIP-158), and resource names (AIP-122). A token is the position of the next page, in base64.
package paging

import (
	"encoding/base64"
	"fmt"

	"github.com/capgate/capgate/internal/call"
)

// Request is a request for a page.
type Request interface {
	GetPageSize() int32
	GetPageToken() string
}

// Read returns the size of a page, standard if the request does not say, and its position; "" is the beginning.
// The error has reason, and metadata that name the wrong field.
func Read(r Request, standard, most int, reason string) (size int, after string, refusal *call.Refusal) {
	if size = int(r.GetPageSize()); size == 0 {
		size = standard
	}
	if size < 0 || size > most {
		return 0, "", call.InvalidField(reason, "page_size", fmt.Sprintf("it must be from 0 to %d", most))
	}
	text, err := base64.RawURLEncoding.DecodeString(r.GetPageToken())
	if err != nil {
		return 0, "", call.InvalidField(reason, "page_token", "it must be the next_page_token of a response")
	}
	return size, string(text), nil
}

// Size returns the size of a page, standard if the request does not say, and at most a number.
func Size(r Request, standard, most int) (int, *call.Refusal) {
	switch size := int(r.GetPageSize()); {
	case size < 0:
		return 0, refusedSize
	case size > 0:
		return min(size, most), nil
	}
	return standard, nil
}

// After returns the position of a page, "" being the beginning.
func After(r Request) (string, *call.Refusal) {
	text, err := base64.RawURLEncoding.DecodeString(r.GetPageToken())
	if err != nil {
		return "", refusedToken
	}
	return string(text), nil
}

// Unreadable returns the refusal of a parameter of a query that is no number; nil: it is none of Size.
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

// Token returns the next_page_token of a page that ends with last, or "" if no more follow.
func Token(last string) string { return base64.RawURLEncoding.EncodeToString([]byte(last)) }
