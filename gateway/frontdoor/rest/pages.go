package rest

import (
	"slices"
	"strconv"
	"strings"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/paging"
)

const (
	defaultPage = 50
	maxPage     = 200
)

// Page returns the requested page of a list, and its next_page_token. A token has the offset of the page and the
// id of the previous page's last entry: if that entry has moved, the page begins after it.
func Page[T interface{ GetId() string }](req paging.Request, all []T) (page []T, next string, err error) {
	const reason = "LIST_INVALID"
	size, after, wrong := paging.Read(req, defaultPage, maxPage, reason)
	if wrong != nil {
		return nil, "", &call.Refusal{Kind: call.InvalidArgument, Reason: reason, Message: wrong.Message, Metadata: wrong.Metadata}
	}
	from := 0
	if after != "" {
		number, id, _ := strings.Cut(after, " ")
		if from, err = strconv.Atoi(number); err != nil || from < 1 {
			return nil, "", &call.Refusal{Kind: call.InvalidArgument, Reason: reason,
				Message:  "page_token: it must be an answer's next_page_token",
				Metadata: map[string]string{"field": "page_token"}}
		}
		from = min(from, len(all))
		if from == 0 || all[from-1].GetId() != id {
			if i := slices.IndexFunc(all, func(e T) bool { return e.GetId() == id }); i >= 0 {
				from = i + 1
			}
		}
	}
	if page = all[from:]; len(page) > size {
		page = page[:size]
		next = paging.Token(strconv.Itoa(from+size) + " " + page[size-1].GetId())
	}
	return page, next, nil
}
