// Package paging reads and writes what lists have in common: page_size, page_token and
// next_page_token (AIP-158), and the names of what is in them (AIP-122). A token is after what to go on, in base64.
package paging

import (
	"encoding/base64"
	"fmt"

	"github.com/capgate/capgate/internal/call"
)

// Request is one for a page.
type Request interface {
	GetPageSize() int32
	GetPageToken() string
}

// Read answers with how many a page is to have, standard where the request does not say,
// and after what it begins, "" being the beginning. reason is a refusal's, whose metadata has the
// field that is wrong.
func Read(r Request, standard, most int, reason string) (size int, after string, refusal *call.Refusal) {
	if size = int(r.GetPageSize()); size == 0 {
		size = standard
	}
	if size < 0 || size > most {
		return 0, "", call.InvalidField(reason, "page_size", fmt.Sprintf("it must be 0 to %d", most))
	}
	text, err := base64.RawURLEncoding.DecodeString(r.GetPageToken())
	if err != nil {
		return 0, "", call.InvalidField(reason, "page_token", "it must be an answer's next_page_token")
	}
	return size, string(text), nil
}

// Token is the next_page_token of a page that ends with last; "" is that there are no more.
func Token(last string) string { return base64.RawURLEncoding.EncodeToString([]byte(last)) }
