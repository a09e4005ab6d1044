package rest

import (
	"net/http"
	"strconv"
	"strings"
)

// preferred is the value of a preference of a request (RFC 7240), "" where it has none.
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

// preferWait is the seconds of a preference wait=N (RFC 7240 §4.3), "" where there is none.
func preferWait(header http.Header) string {
	seconds, err := strconv.ParseUint(preferred(header, "wait"), 10, 31)
	if err != nil {
		return ""
	}
	return strconv.FormatUint(seconds, 10)
}

// How a tool's own error is answered, as the preference errors says.
const (
	errorsHTTP   = "http"   // by an HTTP status
	errorsResult = "result" // in the result, with 200
)

// errorsAs is whether tools' errors are to be HTTP's, and says so where the request has a say.
func (h *Handler) errorsAs(head, request http.Header) (asHTTP bool) {
	switch p := preferred(request, "errors"); strings.ToLower(p) {
	case errorsHTTP, errorsResult:
		head.Add("Preference-Applied", "errors="+strings.ToLower(p))
		return strings.EqualFold(p, errorsHTTP)
	}
	return h.cfg.ToolErrors == HTTPErrors
}
