package console_test

import (
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/capgate/capgate/console"
	"github.com/capgate/capgate/internal/testkit/check"
)

// maxSize bounds all files of the console as they are sent, in bytes.
const maxSize = 120 << 10

func ask(h http.Handler, path string, header ...string) *http.Response {
	r := httptest.NewRequest(http.MethodGet, path, nil)
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

func body(t *testing.T, resp *http.Response) string {
	t.Helper()
	text, err := io.ReadAll(resp.Body)
	check.Must(t, err)
	return string(text)
}

func TestSize(t *testing.T) {
	t.Parallel()
	var sum int64
	for _, dir := range []string{"page", "dist"} {
		err := fs.WalkDir(os.DirFS(dir), ".", func(_ string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() {
				info, err := d.Info()
				if err != nil {
					return err
				}
				sum += info.Size()
			}
			return err
		})
		check.Must(t, err)
	}
	if t.Logf("%d bytes", sum); sum == 0 || sum > maxSize {
		t.Errorf("the console has %d bytes, compressed, and may have %d", sum, maxSize)
	}
}

var link = regexp.MustCompile(`(?:href|src)="([^"]*)"`)

// TestFilesAreKeptAndPagesAreNot: the page names its files with their checksums; these come once and for all, and
// everything else is asked again.
func TestFilesAreKeptAndPagesAreNot(t *testing.T) {
	t.Parallel()
	for _, m := range []console.Mode{console.Console, console.Inbox, console.Docs} {
		h := console.Handler(m)
		page := ask(h, m.Page())
		text := body(t, page)
		if page.StatusCode != 200 || page.Header.Get("Cache-Control") != "no-cache" || strings.Contains(text, "{{") {
			t.Fatalf("%d %v %s", page.StatusCode, page.Header, text)
		}
		links := link.FindAllStringSubmatch(text, -1)
		if len(links) != 3 {
			t.Errorf("%s", text)
		}
		for _, l := range links {
			l[1] = "/" + strings.TrimPrefix(l[1], "/")
			file, _, _ := strings.Cut(l[1], "?")
			if !strings.HasPrefix(file, m.Assets()) {
				t.Errorf("%s is not below %s", file, m.Assets())
			}
			kept, again := ask(h, l[1], "Accept-Encoding", "gzip"), ask(h, file)
			if kept.StatusCode != 200 || !strings.HasSuffix(kept.Header.Get("Cache-Control"), "immutable") ||
				again.StatusCode != 200 || again.Header.Get("Cache-Control") != "no-cache" {
				t.Errorf("%s: %d %v, %d %v", l[1], kept.StatusCode, kept.Header, again.StatusCode, again.Header)
			}
			if same := ask(h, file, "If-None-Match",
				again.Header.Get("ETag")); same.StatusCode != http.StatusNotModified {
				t.Errorf("%s again: %d", file, same.StatusCode)
			}
		}
		if other := ask(h, m.Assets()+"none.js"); other.StatusCode != http.StatusNotFound {
			t.Errorf("%d", other.StatusCode)
		}
	}
}

// The policy permits nothing inline, and the page has nothing inline.
func TestPolicy(t *testing.T) {
	t.Parallel()
	resp := ask(console.Handler(console.Console), "/")
	policy := resp.Header.Get("Content-Security-Policy")
	if policy != console.Policy || strings.Contains(policy, "unsafe") ||
		!strings.HasPrefix(policy, "default-src 'none'; ") {
		t.Errorf("%q", policy)
	}
	text := body(t, resp)
	for _, inline := range []string{"style=", "<style", "onload", "<script>", "javascript:", "http:", "https:"} {
		if strings.Contains(text, inline) {
			t.Errorf("the page has %s: %s", inline, text)
		}
	}
}
