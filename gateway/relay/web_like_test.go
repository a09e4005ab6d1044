package relay_test

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/gateway/relay/accept/handlertest"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/rawhttp2"
)

// peculiar holds handlers that rely on behavior of net/http's server.
var peculiar = handlertest.Peculiar(map[string]http.HandlerFunc{
	"short":     func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>a short body") },
	"kept":      func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(pattern(1, 4096)) },
	"long":      func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(pattern(1, 4097)) },
	"very long": func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(pattern(1, 1<<20)) },
	"many": func(w http.ResponseWriter, _ *http.Request) {
		for i := range 1000 {
			_, _ = w.Write(pattern(i, 100))
		}
	},
	"flushed": func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "a")
		_ = http.NewResponseController(w).Flush()
		w.Header().Set("X-Late", "1")
		_, _ = io.WriteString(w, "b")
	},
	"flushed at last": func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "a")
		w.(http.Flusher).Flush()
	},
	"no content": func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNoContent)
		if _, err := w.Write([]byte("x")); err != http.ErrBodyNotAllowed { //nolint:errorlint // never wrapped
			panic(err)
		}
	},
	"not modified": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("ETag", `"1"`)
		w.WriteHeader(http.StatusNotModified)
	},
	"not sized": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "many")
		write(w, "abc")
	},
	"headers": func(w http.ResponseWriter, _ *http.Request) {
		h := w.Header()
		h["X-Many"], h["x-odd"], h["X-Empty"] = []string{"1", "2"}, []string{"3"}, []string{""}
		h["X Bad"], h["X-Bad"], h["X-Ünicode"] = []string{"1"}, []string{"a\nb"}, []string{"1"}
		h.Add("Set-Cookie", "a=1")
		h.Add("Set-Cookie", "b=2")
		h.Set("Connection", "x")
		h.Set("Transfer-Encoding", "chunked")
		write(w, "x")
	},
	"trailers": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Trailer", "X-One, x-two, Content-Length, X-Never")
		write(w, "x")
		w.Header().Set("X-One", "1")
		w.Header().Set("X-Two", "2")
		w.Header().Set("X-Three", "3")
		w.Header().Set(http.TrailerPrefix+"X-Four", "4")
		w.Header().Set(http.TrailerPrefix+"Content-Type", "5")
	},
	"request": func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		again, end := r.Body.Read(make([]byte, 1))
		_, _ = fmt.Fprintln(w, r.Method, r.Proto, r.ProtoMajor, r.ProtoMinor, r.Host, r.RequestURI, r.ContentLength,
			r.TransferEncoding, r.Close, r.URL.Path, r.URL.RawPath, r.URL.RawQuery, r.URL.ForceQuery, r.URL.Host,
			r.URL.Scheme, r.URL.Opaque, r.TLS == nil, string(body), err, again, end)
		for _, of := range []http.Header{r.Header, r.Trailer} {
			for _, name := range slices.Sorted(maps.Keys(of)) {
				_, _ = fmt.Fprintf(w, "%s: %q\n", name, of[name])
			}
		}
	},
})

func write(w io.Writer, text string) { _, _ = io.WriteString(w, text) }

// likeServers returns the addresses of a relay and of net/http's server, with the same handlers by path.
func likeServers(t *testing.T) (own, theirs string) {
	var mux http.ServeMux
	for name, h := range peculiar {
		mux.HandleFunc("/"+strings.ReplaceAll(name, " ", "-")+"/", h)
	}
	_, own = serveRelay(t, relay.Config{}, &forwarder{}, &mux)
	return own, netHTTP(t, &mux)
}

// netHTTP serves HTTP/2 in cleartext with net/http's server.
func netHTTP(t testing.TB, h http.Handler) (addr string) {
	ln := check.Listen(t)
	srv := &http.Server{Handler: h, Protocols: new(http.Protocols), ReadHeaderTimeout: time.Minute}
	srv.Protocols.SetUnencryptedHTTP2(true)
	go func() { _ = srv.Serve(ln) }()
	check.Cleanup(t, func() { _ = srv.Close() })
	return ln.Addr().String()
}

// TestWebIsLikeNetHTTP compares the responses of a relay's http.Handler with those of net/http's server for clients of
// HTTP/2.
func TestWebIsLikeNetHTTP(t *testing.T) {
	t.Parallel()
	own, theirs := likeServers(t)
	client := webClients(t, nil)["HTTP/2.0"]
	for name := range peculiar {
		path := "/" + strings.ReplaceAll(name, " ", "-") + "/"
		for _, method := range []string{"GET", "HEAD", "POST", "PUT"} {
			get := func(addr string) string { return likeFetch(t, client, addr, method, path) }
			if a, b := get(own), get(theirs); a != b {
				t.Errorf("%s %s:\nrelay:    %s\nnet/http: %s", method, name, a, b)
			}
		}
	}
}

// likeFetch makes a request and describes everything that a client sees of the response.
func likeFetch(t *testing.T, c *http.Client, addr, method, path string) string {
	var body io.Reader
	switch method {
	case "POST":
		body = strings.NewReader("a body")
	case "PUT":
		body = io.MultiReader(strings.NewReader("of an unknown "), strings.NewReader("length"))
	}
	req, err := http.NewRequest(method, "http://"+addr+path+"a%2Fb/%7e?c=d&e=%20f", body)
	check.Must(t, err)
	req.Host = "a.example:1234"
	req.Header = http.Header{"X-One": {"1", "2"}, "Cookie": {"a=1; b=2"}, "Te": {"trailers"}, "User-Agent": {""}}
	if method == "PUT" {
		req.Trailer = http.Header{"X-Sum": {"1", "2"}}
	}
	resp, err := c.Do(req)
	if err != nil {
		return "no response"
	}
	defer func() { _ = resp.Body.Close() }()
	got, err := io.ReadAll(resp.Body)
	if date := resp.Header.Get("Date"); date != "once" && date != "" {
		if _, err := http.ParseTime(date); err != nil {
			t.Error(err)
		}
		resp.Header.Set("Date", "some")
	}
	if err != nil && len(got) < 1000 {
		got = nil // how much arrives before an abort is random
	}
	return fmt.Sprintf("%d, length %d, %v %v, %d bytes %.1000q, broken off %v", resp.StatusCode, resp.ContentLength,
		resp.Header, resp.Trailer, len(got), got, err != nil)
}

// TestWebTargets compares the targets and headers that both accept, and how they parse them.
func TestWebTargets(t *testing.T) {
	t.Parallel()
	own, theirs := likeServers(t)
	const path = "/request/"
	for _, more := range [][]string{
		{":path", path}, {":path", path + "?"}, {":path", path + "?a?b"}, {":path", path + "%2f%41"},
		{":path", path + "a;b=c,d"}, {":path", path + "%zz"}, {":path", path + "%"}, {":path", path + "a:b@c"},
		{":path", path + "[x]"}, {":path", path + `\"<>`},
		{":path", "//request/"}, {":path", "/request//a/../b"}, {":path", path + "ü"},
		{":method", "OPTIONS", ":path", "*"},
		{":path", path, "expect", "nothing"}, {":path", path, "cookie", "a=1", "cookie", "b=2"},
		{":path", path, "trailer", "x-a, X-B,content-length"}, {":path", path, "te", "trailers", "te", "trailers"},
		{":path", path, ":authority", "", "host", "b.example"},
		{":path", path, ":authority", "b.example", "host", "b.example"},
		{":path", path, "content-length", "0"}, {":path", path, "x-a", "1", "x-a", ""},
		{":path", path, ":authority", "u@b.example"}, {":method", "get", ":path", path},
	} {
		if a, b := rawFetch(t, own, more), rawFetch(t, theirs, more); a != b {
			t.Errorf("%q:\nrelay:    %s\nnet/http: %s", more, a, b)
		}
	}
	for _, more := range [][]string{ // net/http accepts some of these
		{":path", "*"}, {":path", path, "content-length", "1"},
		{":path", path, "content-length", "0", "content-length", "0"}, {":path", path, "connection", "close"},
		{":path", path, "transfer-encoding", "chunked"}, {":path", path, "te", "gzip"},
		{":path", path, "host", "b.example"}, {":path", path, "X-A", "1"}, {":path", path, "x-a", " 1"},
	} {
		if got := rawFetch(t, own, more); got != "refused: <nil> reset with error 1" {
			t.Errorf("%q: %s", more, got)
		}
	}
}

// rawFetch makes a request with these fields, which replace the default ones, and describes the response.
func rawFetch(t *testing.T, addr string, more []string) string {
	c, err := rawhttp2.Dial(addr)
	check.Must(t, err)
	defer func() { _ = c.Close() }()
	check.Must(t, c.Greet())
	var pseudo, fields []string
	for _, given := range [][]string{more, {":method", "GET", ":scheme", "http", ":authority", "a.example"}} {
		for i := 0; i < len(given); i += 2 {
			switch name, value := given[i], given[i+1]; {
			case name[0] != ':':
				fields = append(fields, name, value)
			case !slices.Contains(pseudo, name):
				pseudo = append(pseudo, name, value)
			}
		}
	}
	for i := len(pseudo) - 2; i >= 0; i -= 2 {
		if pseudo[i+1] == "" {
			pseudo = slices.Delete(pseudo, i, i+2)
		}
	}
	check.Must(t, c.Write(rawhttp2.Headers(1, true, c.Block(append(pseudo, fields...)...))))
	r, err := c.WaitResponse(1)
	if err != nil || r.Reset {
		return fmt.Sprint("refused: ", err, r)
	}
	delete(r.Header, "date")
	return fmt.Sprintf("%v %v %s", r.Header, r.Trailer, r.Body)
}
