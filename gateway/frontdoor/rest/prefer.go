package rest

import (
	"net/http"
	"strconv"
	"strings"
)

// preferred returns the value of a preference of a request (RFC 7240); empty means none.
func preferred(header http.Header, name string) string {
	for _, line := range header.Values("Prefer") {
		for preference := range strings.SplitSeq(line, ",") {
			n, value, _ := strings.Cut(strings.TrimSpace(preference), "=")
			value, _, _ = strings.Cut(value, ";")
			if strings.EqualFold(strings.TrimSpace(n), name) {
				return strings.Trim(strings.TrimSpace(value), `"`)
			}
		}
	}
	return ""
}

// preferWait returns the seconds of a preference wait=N (RFC 7240 §4.3); "" if absent.
func preferWait(header http.Header) string {
	seconds, err := strconv.ParseUint(preferred(header, "wait"), 10, 31)
	if err != nil {
		return ""
	}
	return strconv.FormatUint(seconds, 10)
}

// How a tool's own error is returned, as in the preference errors.
const (
	errorsHTTP   = "http"   // as an HTTP status
	errorsResult = "result" // in the result, with status 200
)

// errorsAs reports whether tools' errors become HTTP errors. It confirms a preference of the request in the response.
func (h *Handler) errorsAs(head, request http.Header) (asHTTP bool) {
	switch p := preferred(request, "errors"); strings.ToLower(p) {
	case errorsHTTP, errorsResult:
		head.Add("Preference-Applied", "errors="+strings.ToLower(p))
		return strings.EqualFold(p, errorsHTTP)
	}
	return h.cfg.ToolErrors == HTTPErrors
}
