package admin

import (
	"encoding/base64"
	"net/http"
	"strconv"

	"google.golang.org/grpc/codes"
)

// sizeOf is how many a page of a list is to have, standard where the request does not say. It is not ok for what
// is no number, of which the request is told.
func sizeOf(w http.ResponseWriter, r *http.Request, standard, most int) (size int, ok bool) {
	v := r.URL.Query().Get("page_size")
	n, err := strconv.Atoi(v)
	switch {
	case v == "", err == nil && n == 0:
		return standard, true
	case err != nil || n < 0:
		refuse(w, r, http.StatusBadRequest, codes.InvalidArgument, "INVALID_PAGE_SIZE",
			"page_size must be a number that is not negative")
		return 0, false
	}
	return min(n, most), true
}

// afterOf is after what a page begins, "" being the beginning.
func afterOf(w http.ResponseWriter, r *http.Request) (after string, ok bool) {
	text, err := base64.RawURLEncoding.DecodeString(r.URL.Query().Get("page_token"))
	if err != nil {
		refuse(w, r, http.StatusBadRequest, codes.InvalidArgument, "INVALID_PAGE_TOKEN",
			"page_token must be one that a page had")
		return "", false
	}
	return string(text), true
}

// tokenOf is the page_token of what comes after a page's last.
func tokenOf(last string) string { return base64.RawURLEncoding.EncodeToString([]byte(last)) }
