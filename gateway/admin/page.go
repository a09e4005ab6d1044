package admin

import (
	"encoding/base64"
	"net/http"
	"strconv"

	"google.golang.org/grpc/codes"
)

// sizeOf returns the page size of a request, or standard. If it is invalid, sizeOf writes an error and returns
// false.
func sizeOf(w http.ResponseWriter, r *http.Request, standard, most int) (size int, ok bool) {
	v := r.URL.Query().Get("page_size")
	n, err := strconv.Atoi(v)
	switch {
	case v == "", err == nil && n == 0:
		return standard, true
	case err != nil || n < 0:
		refuse(w, r, http.StatusBadRequest, codes.InvalidArgument, "INVALID_PAGE_SIZE",
			"page_size must be a non-negative number")
		return 0, false
	}
	return min(n, most), true
}

// afterOf returns the position of a page, "" being the beginning.
func afterOf(w http.ResponseWriter, r *http.Request) (after string, ok bool) {
	text, err := base64.RawURLEncoding.DecodeString(r.URL.Query().Get("page_token"))
	if err != nil {
		refuse(w, r, http.StatusBadRequest, codes.InvalidArgument, "INVALID_PAGE_TOKEN",
			"page_token must be the next_page_token of a response")
		return "", false
	}
	return string(text), true
}

// tokenOf returns the page_token of the position after last.
func tokenOf(last string) string { return base64.RawURLEncoding.EncodeToString([]byte(last)) }
