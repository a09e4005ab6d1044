package rest

import (
	"slices"
	"strconv"
	"strings"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/paging"
)

// bounds sets the page sizes of lists.
var bounds = paging.Bounds{Standard: 50, Most: 200, Reason: "LIST_INVALID"}

// Page returns the requested page of a list, and its next_page_token. A token has the offset of the page and the id of
// the previous page's last entry: if that entry has moved, the page starts after it.
func Page[T interface{ GetId() string }](req paging.Request, all []T) (page []T, next string, err error) {
	asked, refusal := bounds.Read(req)
	if refusal != nil {
		return nil, "", refusal
	}
	from := 0
	if asked.After != "" {
		number, id, _ := strings.Cut(asked.After, " ")
		if from, err = strconv.Atoi(number); err != nil || from < 1 {
			return nil, "", call.InvalidField(bounds.Reason, "page_token", "it must be the next_page_token of a "+
				"response")
		}
		from = min(from, len(all))
		if from == 0 || all[from-1].GetId() != id {
			if i := slices.IndexFunc(all, func(e T) bool { return e.GetId() == id }); i >= 0 {
				from = i + 1
			}
		}
	}
	if page = all[from:]; len(page) > asked.Size {
		page = page[:asked.Size]
		next = paging.Token(strconv.Itoa(from+asked.Size) + " " + page[asked.Size-1].GetId())
	}
	return page, next, nil
}
