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

// Token returns the next_page_token of a page that ends with last, or "" if no more follow.
func Token(last string) string { return base64.RawURLEncoding.EncodeToString([]byte(last)) }
