package console

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"io"
	"net/http"
	"strings"
	"sync"
)

//go:embed page/index.html page/icon.svg dist/console.js.gz dist/console.css.gz
var files embed.FS

// Policy is the content security policy of the pages: their own script and style sheet, and requests to their own
// gateway. Forms send to it alone, and no page of another site shows them in a frame.
const Policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"base-uri 'none'; form-action 'self'; frame-ancestors 'none'"

// Mode is one of the pages that share the script.
type Mode struct{ name, title, path, assets string }

// The modes.
var (
	// Console is the page at / of the admin API, with its files below /console/.
	Console = Mode{"console", "Console", "/", "/console/"}
	// Inbox is the page at /inbox of the public port, with its files below /inbox/assets/.
	Inbox = Mode{"inbox", "Inbox", "/inbox", "/inbox/assets/"}
	// Docs is the page at /docs of the public port, with its files below /docs/assets/. It names them relative to
	// itself, so that it also works behind a proxy that adds a prefix.
	Docs = Mode{"docs", "Connect", "/docs", "/docs/assets/"}
)

// Page returns the path of the mode's page.
func (m Mode) Page() string { return m.path }

// Assets returns the prefix of the paths of the mode's files. They are the same for everybody, and need no credential.
func (m Mode) Assets() string { return m.assets }

// link returns the prefix of the links to the mode's files.
func (m Mode) link() string {
	if m == Docs {
		return strings.TrimPrefix(m.assets, "/")
	}
	return m.assets
}

// asset is a file in memory.
type asset struct {
	form   string // content type
	tag    string // ETag
	plain  []byte
	packed []byte // compressed by gzip; nil: sent plain
}

// Handler returns the handler of a mode's page and files, by the whole path of the request. It takes GET and HEAD.
func Handler(m Mode) http.Handler {
	all, err := handlers()
	if err != nil { // not in a program that was built
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "the page is not in this program: "+err.Error(), http.StatusInternalServerError)
		})
	}
	return all[m]
}

// handlers unpacks the files once: all gateways of a process serve the same.
var handlers = sync.OnceValues(func() (map[Mode]http.Handler, error) {
	assets := map[string]*asset{}
	for name, form := range map[string]string{"console.js": "text/javascript; charset=utf-8",
		"console.css": "text/css; charset=utf-8", "icon.svg": "image/svg+xml"} {
		var err error
		if assets[name], err = load(name, form); err != nil {
			return nil, err
		}
	}
	page, err := files.ReadFile("page/index.html")
	if err != nil {
		return nil, err
	}
	return map[Mode]http.Handler{
		Console: handler(Console, string(page), assets),
		Inbox:   handler(Inbox, string(page), assets),
		Docs:    handler(Docs, string(page), assets),
	}, nil
})

func handler(m Mode, page string, assets map[string]*asset) http.Handler {
	mux := http.NewServeMux()
	text := strings.NewReplacer("{{mode}}", m.name, "{{title}}", m.title).Replace(page)
	for name, a := range assets {
		version := strings.Trim(a.tag, `"`)
		text = strings.ReplaceAll(text, "{{"+name+"}}", m.link()+name+"?v="+version)
		mux.HandleFunc("GET "+m.assets+name, a.serve(version))
	}
	exact := m.path
	if exact == "/" {
		exact = "/{$}"
	}
	whole := asset{form: "text/html; charset=utf-8", tag: tagOf([]byte(text)), plain: []byte(text)}
	mux.HandleFunc("GET "+exact, whole.serve(""))
	return mux
}

func load(name, form string) (*asset, error) {
	a := &asset{form: form}
	var err error
	if a.packed, err = files.ReadFile("dist/" + name + ".gz"); err == nil {
		var z *gzip.Reader
		if z, err = gzip.NewReader(bytes.NewReader(a.packed)); err == nil {
			a.plain, err = io.ReadAll(z)
		}
	} else {
		a.plain, err = files.ReadFile("page/" + name)
	}
	a.tag = tagOf(a.plain)
	return a, err
}

func tagOf(content []byte) string {
	sum := sha256.Sum256(content)
	return `"` + base64.RawURLEncoding.EncodeToString(sum[:12]) + `"`
}

// serve returns the handler of an asset. A request that names its version gets it once and for all.
func (a *asset) serve(version string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		head := w.Header()
		head.Set("Content-Type", a.form)
		head.Set("Content-Security-Policy", Policy)
		head.Set("Cross-Origin-Opener-Policy", "same-origin")
		head.Set("Cross-Origin-Resource-Policy", "same-origin")
		head.Set("Referrer-Policy", "no-referrer")
		head.Set("X-Content-Type-Options", "nosniff")
		head.Set("X-Frame-Options", "DENY") // for browsers that do not know frame-ancestors
		head.Set("ETag", a.tag)
		head.Set("Cache-Control", "no-cache")
		if version != "" && r.URL.Query().Get("v") == version {
			head.Set("Cache-Control", "public, max-age=31536000, immutable")
		}
		content := a.plain
		if a.packed != nil {
			head.Add("Vary", "Accept-Encoding")
			if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
				head.Set("Content-Encoding", "gzip")
				content = a.packed
			}
		}
		if r.Header.Get("If-None-Match") == a.tag {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		_, _ = w.Write(content) // the client may be gone; there is no way to report it
	}
}
