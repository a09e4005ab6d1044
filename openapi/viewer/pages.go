package viewer

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"

	"github.com/capgate/capgate/internal/lib/accept"
)

//go:embed files/index.html files/page.css files/page.js files/swagger-ui-bundle.js.gz files/swagger-ui.css.gz
var files embed.FS

// policy is the page's content security policy: its own scripts, and requests to its own gateway. Swagger UI uses
// inline styles and inline images.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// Pages returns the handlers of the page's files, by path. They take GET and HEAD.
func Pages() map[string]http.HandlerFunc { return pages() }

// pages reads the files once: reading an embedded file copies it.
var pages = sync.OnceValue(func() map[string]http.HandlerFunc {
	return map[string]http.HandlerFunc{
		"/docs":                      page("index.html", "text/html; charset=utf-8"),
		"/docs/page.css":             page("page.css", "text/css; charset=utf-8"),
		"/docs/page.js":              page("page.js", "text/javascript; charset=utf-8"),
		"/docs/swagger-ui.css":       page("swagger-ui.css.gz", "text/css; charset=utf-8"),
		"/docs/swagger-ui-bundle.js": page("swagger-ui-bundle.js.gz", "text/javascript; charset=utf-8"),
	}
})

// page serves a file. A compressed file is sent as it is to clients that accept it.
func page(name, form string) http.HandlerFunc {
	content, err := files.ReadFile("files/" + name) // it is embedded above
	_, packed := strings.CutSuffix(name, ".gz")
	sum := sha256.Sum256(content)
	tag := `"` + base64.RawURLEncoding.EncodeToString(sum[:16]) + `"`
	return func(w http.ResponseWriter, r *http.Request) {
		if err != nil {
			http.Error(w, fmt.Sprintf("%s is not in this program", name), http.StatusInternalServerError)
			return
		}
		head := w.Header()
		head.Set("Content-Type", form)
		head.Set("Content-Security-Policy", policy)
		head.Set("Referrer-Policy", "no-referrer")
		head.Set("X-Content-Type-Options", "nosniff")
		head.Set("Cache-Control", "no-cache")
		head.Set("ETag", tag)
		var from io.Reader = bytes.NewReader(content)
		if packed {
			head.Add("Vary", "Accept-Encoding")
			if accept.Weigh(accept.Ranges(r.Header, "Accept-Encoding"), "gzip") > 0 {
				head.Set("Content-Encoding", "gzip")
			} else if r.Method == http.MethodHead {
				return // unpacking takes time that nobody authenticated for
			} else if z, err := gzip.NewReader(from); err == nil { // fetch wrote it
				from = z
			}
		}
		_, _ = io.Copy(w, from) // the client may be gone; there is no way to report it
	}
}
