package problem

import (
	"crypto/sha256"
	"encoding/base64"
	"html"
	"net/http"
	"regexp"
	"strings"
	"sync"

	"github.com/capgate/capgate/docs"
)

// Path is the path of the page with all reasons, at both ports. A reason is a fragment of it.
const Path = "/docs/errors"

// Page serves docs/errors.md to browsers. It needs no credential, because it has no secrets. It is rendered at the
// first request.
func Page() http.Handler {
	page := sync.OnceValues(func() (text []byte, tag string) {
		text = []byte(pageOf(docs.Errors))
		sum := sha256.Sum256(text)
		return text, `"` + base64.RawURLEncoding.EncodeToString(sum[:12]) + `"`
	})
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		text, tag := page()
		head := w.Header()
		head.Set("Content-Type", "text/html; charset=utf-8")
		head.Set("Content-Security-Policy", pagePolicy)
		head.Set("X-Content-Type-Options", "nosniff")
		head.Set("Cache-Control", "public, max-age=300")
		head.Set("ETag", tag)
		_, _ = w.Write(text) // an error means that the client has disconnected
	})
}

// pageStyle renders a row of a table as a block on phones, and uses the color scheme of the device.
const pageStyle = `:root{color-scheme:light dark;background:Canvas;color:CanvasText}
body{font:16px/1.5 system-ui,sans-serif;max-width:70rem;margin:2rem auto;padding:0 1rem;overflow-wrap:anywhere}
table{border-collapse:collapse}td,th{border:1px solid #8886;padding:.3rem .6rem;text-align:left;vertical-align:top}
:target{background:#fd6;color:#000}
@media(max-width:40rem){body{margin:1rem auto}h1{font-size:1.5rem}tr:first-child:has(th){display:none}
table,tbody,tr,td{display:block}tr{border:1px solid #8886;margin:0 0 .75rem;padding:.3rem .6rem}
td{border:0;padding:.15rem 0}}`

const pageHead = `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>capgate: errors</title><style>` + pageStyle + `</style></head><body>
<p><a href="/docs">API and tools</a></p>
`

// pagePolicy only allows the page's own style, and no script.
var pagePolicy = func() string { //nolint:gochecknoglobals // a constant
	sum := sha256.Sum256([]byte(pageStyle))
	return "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) +
		"'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
}()

// pageOf renders the Markdown of errors.md as HTML: headings, tables and paragraphs.
func pageOf(text string) string {
	var b strings.Builder
	b.WriteString(pageHead)
	for block := range strings.SplitSeq(strings.TrimSpace(text), "\n\n") {
		switch {
		case strings.HasPrefix(block, "## "):
			b.WriteString("<h2>" + spans(block[3:]) + "</h2>\n")
		case strings.HasPrefix(block, "# "):
			b.WriteString("<h1>" + spans(block[2:]) + "</h1>\n")
		case strings.HasPrefix(block, "|"):
			b.WriteString("<table>\n")
			for i, row := range strings.Split(block, "\n") {
				if i != 1 { // the second line has dashes
					writeRow(&b, row, i == 0, strings.HasPrefix(block, "| reason"))
				}
			}
			b.WriteString("</table>\n")
		default:
			b.WriteString("<p>" + spans(block) + "</p>\n")
		}
	}
	b.WriteString("</body></html>\n")
	return b.String()
}

var (
	reasonCode = regexp.MustCompile("<code>([A-Z][A-Z_]+)</code>")
	markedUp   = regexp.MustCompile("`([^`]+)`|\\*\\*?([^*]+)\\*\\*?|\\[([^]]+)\\]\\(([^)]+)\\)")
)

// writeRow writes a row of a table. In a table of reasons, the first cell has the fragments of problem types.
func writeRow(b *strings.Builder, row string, heading, reasons bool) {
	cell := "td"
	if heading {
		cell = "th"
	}
	b.WriteString("<tr>")
	for i, text := range strings.Split(strings.Trim(row, "|"), "|") {
		text = spans(strings.TrimSpace(text))
		if i == 0 && reasons {
			text = reasonCode.ReplaceAllString(text, `<code id="$1">$1</code>`)
		}
		b.WriteString("<" + cell + ">" + text + "</" + cell + ">")
	}
	b.WriteString("</tr>\n")
}

// spans renders code, emphasis and links. It drops links into the repository, which the gateway does not serve.
func spans(text string) string {
	var b strings.Builder
	at := 0
	for _, m := range markedUp.FindAllStringSubmatchIndex(text, -1) {
		b.WriteString(html.EscapeString(text[at:m[0]]))
		at = m[1]
		switch {
		case m[2] >= 0:
			b.WriteString("<code>" + html.EscapeString(text[m[2]:m[3]]) + "</code>")
		case m[4] >= 0:
			b.WriteString("<em>" + html.EscapeString(text[m[4]:m[5]]) + "</em>")
		case strings.HasPrefix(text[m[8]:m[9]], "https://"):
			b.WriteString(`<a rel="noopener noreferrer" href="` + html.EscapeString(text[m[8]:m[9]]) + `">` +
				spans(text[m[6]:m[7]]) + "</a>")
		default:
			b.WriteString(spans(text[m[6]:m[7]]))
		}
	}
	b.WriteString(html.EscapeString(text[at:]))
	return b.String()
}
