package files

import (
	"fmt"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"unicode"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/untrusted"
)

// maxName is the maximum length of a file name in bytes, as in file systems.
const maxName = 255

// cleanName returns a name that is safe for creating a file and for display: the last part of a path, without control
// characters and characters that reverse the text direction, and not longer than file systems allow. Empty means no
// name.
func cleanName(name string) string {
	name = untrusted.UTF8(name)
	name = name[strings.LastIndexAny(name, `/\`)+1:]
	name = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.In(r, unicode.Bidi_Control, unicode.Zl, unicode.Zp) || r == '\uFEFF' {
			return -1
		}
		return r
	}, name)
	name = shorten(strings.TrimSpace(name))
	name = strings.TrimRight(name, ". ") // Windows removes them, which would change the type
	return name
}

// shorten shortens a long name before its extension.
func shorten(name string) string {
	if len(name) <= maxName {
		return name
	}
	ext := path.Ext(name)
	if len(ext) > 20 {
		ext = ""
	}
	return strings.TrimRight(untrusted.Truncate(name, maxName-len(ext)), " ") + ext
}

// nameIn returns the name of a file in a request, from the query or from Content-Disposition.
func nameIn(r *http.Request) (string, *call.Refusal) {
	if query := r.URL.Query(); query.Has("filename") {
		return cleanName(query.Get("filename")), nil
	}
	said := r.Header.Get("Content-Disposition")
	if said == "" {
		return "", nil
	}
	name, _, readable := nameOf(said)
	if !readable {
		return "", badHeader("Content-Disposition",
			`is invalid; want attachment; filename="report.pdf", with `+"filename* in UTF-8")
	}
	return cleanName(name), nil
}

// nameOf returns the file name in a Content-Disposition (RFC 6266, whose filename* takes precedence), and whether it
// has one, which may be empty.
func nameOf(disposition string) (name string, named, readable bool) {
	_, params, err := mime.ParseMediaType(disposition)
	name, named = params["filename"]
	// mime omits a parameter in an unknown charset without an error.
	return name, named, err == nil && (named || !strings.Contains(strings.ToLower(disposition), "filename*"))
}

// checkQuery rejects unknown and repeated parameters of an upload. Files of a form have names of their own.
func checkQuery(raw string, isForm bool) *call.Refusal {
	query, err := url.ParseQuery(raw)
	if err != nil {
		return &call.Refusal{Kind: call.InvalidArgument, Reason: "INVALID_QUERY",
			Message: "the query cannot be read: percent-encode the filename"}
	}
	for _, name := range slices.Sorted(maps.Keys(query)) {
		if name == "filename" && len(query[name]) == 1 && !isForm {
			continue
		}
		why := "is unknown: an upload only has the parameter filename"
		if name == "filename" {
			why = "occurs twice, or its request is a form, whose parts have their own names"
		}
		return &call.Refusal{Kind: call.InvalidArgument, Reason: "INVALID_QUERY",
			Message: "the query parameter " + call.Quote(name) + " " + why}
	}
	return nil
}

// disposition returns the value of a response's Content-Disposition (RFC 6266). name must be clean.
func disposition(how, name string) string {
	if name == "" {
		return how
	}
	plain, same := strings.Builder{}, true
	for _, r := range name {
		if r < ' ' || r > '~' || r == '"' || r == '\\' || r == '%' { // RFC 6266 appendix D
			r, same = '_', false
		}
		plain.WriteRune(r)
	}
	if same {
		return fmt.Sprintf(`%s; filename="%s"`, how, name)
	}
	return fmt.Sprintf(`%s; filename="%s"; filename*=UTF-8''%s`, how, plain.String(), extended(name))
}

// extended returns a text in the encoding of RFC 8187.
func extended(name string) string {
	var b strings.Builder
	for i := range len(name) {
		c := name[i]
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' ||
			strings.IndexByte("!#$&+-.^_`|~", c) >= 0 {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}
