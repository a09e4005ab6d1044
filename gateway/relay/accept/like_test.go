package accept_test

import (
	"bufio"
	"fmt"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/capgate/capgate/gateway/relay/accept"
	"github.com/capgate/capgate/gateway/relay/accept/handlertest"
	"github.com/capgate/capgate/internal/testkit/check"
)

// peculiar holds handlers that rely on behavior of net/http's server.
var peculiar = handlertest.Peculiar(map[string]http.HandlerFunc{
	"an own":    func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(777); write(w, "x") },
	"short":     func(w http.ResponseWriter, _ *http.Request) { write(w, "<html>a short body") },
	"kept":      func(w http.ResponseWriter, _ *http.Request) { write(w, strings.Repeat("x", 2048)) },
	"long":      func(w http.ResponseWriter, _ *http.Request) { write(w, strings.Repeat("x", 2049)) },
	"very long": func(w http.ResponseWriter, _ *http.Request) { write(w, strings.Repeat("x", 1<<20)) },
	"many": func(w http.ResponseWriter, _ *http.Request) {
		for i := range 1000 {
			write(w, strings.Repeat("x", i))
		}
	},
	"flushed": func(w http.ResponseWriter, _ *http.Request) {
		write(w, "a")
		_ = http.NewResponseController(w).Flush()
		w.Header().Set("X-Late", "1")
		write(w, "b")
	},
	"no content": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "1")
		w.WriteHeader(http.StatusNoContent)
		if _, err := w.Write([]byte("x")); err != http.ErrBodyNotAllowed { //nolint:errorlint // never wrapped
			panic(err)
		}
	},
	"not modified": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("ETag", `"1"`)
		w.Header().Set("Content-Type", "a/b")
		w.WriteHeader(http.StatusNotModified)
	},
	"not sized": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "many")
		write(w, "abc")
		_ = http.NewResponseController(w).Flush()
	},
	"oversized": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "3")
		if _, err := w.Write([]byte("abcd")); err != http.ErrContentLength { //nolint:errorlint // never wrapped
			panic(err)
		}
	},
	"headers": func(w http.ResponseWriter, _ *http.Request) {
		h := w.Header()
		h["X-Many"], h["x-odd"], h["X-Empty"] = []string{"1", "2"}, []string{" 3 "}, []string{""}
		h["X Bad"], h["X-Bad"], h["X-Ünicode"] = []string{"1"}, []string{"a\r\nb: c"}, []string{"1"}
		h.Add("Set-Cookie", "a=1")
		h.Add("Set-Cookie", "b=2")
		h.Set("Connection", "x")
		write(w, "x")
	},
	"large headers": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Long", strings.Repeat("x", 10_000))
		write(w, "x")
	},
	"last": func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Connection", "close"); write(w, "x") },
	"trailers": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Trailer", "X-One, x-two, Content-Length, X-Never")
		write(w, "x")
		w.Header().Set("X-One", "1")
		w.Header().Set("X-Two", "2")
		w.Header().Set("X-Three", "3")
		w.Header().Set(http.TrailerPrefix+"X-Four", "4")
	},
	"request": func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		again, end := r.Body.Read(make([]byte, 1))
		_, _ = fmt.Fprintln(w, r.Method, r.Proto, r.ProtoMajor, r.ProtoMinor, r.Host, r.RequestURI, r.ContentLength,
			r.TransferEncoding, r.Close, r.URL, r.TLS == nil, string(body), err, again, end)
		for _, name := range slices.Sorted(maps.Keys(r.Header)) {
			_, _ = fmt.Fprintf(w, "%s: %q\n", name, r.Header[name])
		}
	},
	"contexts": func(w http.ResponseWriter, r *http.Request) {
		_, isServer := r.Context().Value(http.ServerContextKey).(*http.Server)
		_, isAddr := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
		_, _ = fmt.Fprintln(w, isServer, isAddr, r.Context().Value("other"))
	},
})

func write(w io.Writer, text string) { _, _ = io.WriteString(w, text) }

// raws holds what a client sends, with %s for the path.
var raws = [...]string{
	"GET %s HTTP/1.1\r\nHost: a\r\n\r\n",
	"HEAD %s HTTP/1.1\r\nHost: a\r\n\r\n",
	"POST %s?a=b%%20c HTTP/1.1\r\nhost: a:80\r\nx-many: 1\r\nX-Many: 2\r\ncontent-length: 3\r\n\r\nabC",
	"PUT %[1]s HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabcGET %[1]s HTTP/1.1\r\nHost: a\r\n\r\n",
	"GET %[1]s HTTP/1.1\r\nHost: a\r\n\r\nPOST %[1]s HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" +
		"3\r\nabc\r\n0\r\n\r\nGET %[1]s HTTP/1.1\r\nHost: a\r\n\r\n",
	"GET %[1]s HTTP/1.1\r\nHost: a\r\n\r\nPOST %[1]s HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n" +
		"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET %[1]s HTTP/1.1\r\nHost: a\r\n\r\n",
	"POST %s HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
	"POST %s HTTP/1.1\r\nHost: a\r\nContent-Length: 30\r\n\r\nabc",
	"GET %s HTTP/1.1\nHost: a\n\n",
	"GET %s HTTP/1.1\r\nHost : a\r\n\r\n",
	"GET %s HTTP/1.1\r\nHost: a\r\nX: b\r\n folded\r\n\r\n",
	"GET http://b%s HTTP/1.1\r\nHost: a\r\n\r\n",
	"GET %s HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
	"GET %s HTTP/1.0\r\nHost: a\r\nConnection: keep-alive\r\n\r\n",
	"GET %s HTTP/1.1\r\n\r\n",
}

// better holds the requests that net/http treats differently, by the name of the handler: it sends a length that is not
// a number, and keeps a connection although the client has broken off.
var better = map[string]string{"not sized": "HEAD", "request": raws[7]}

// TestResponsesAreLikeNetHTTPs compares responses over HTTP/1.1 with those of net/http's server.
func TestResponsesAreLikeNetHTTPs(t *testing.T) {
	t.Parallel()
	var mux http.ServeMux
	for name, h := range peculiar {
		mux.HandleFunc("/"+strings.ReplaceAll(name, " ", "-"), h)
	}
	_, own := serve(t, accept.Limits{MaxConns: 100}, &mux)
	ln := check.Listen(t)
	srv := &http.Server{Handler: &mux, ReadHeaderTimeout: time.Minute, ErrorLog: log.New(io.Discard, "", 0)}
	go func() { _ = srv.Serve(ln) }()
	check.Cleanup(t, func() { _ = srv.Close() })
	for name := range peculiar {
		for _, raw := range raws {
			if better[name] != "" && strings.HasPrefix(raw, better[name]) {
				continue
			}
			text := fmt.Sprintf(raw, "/"+strings.ReplaceAll(name, " ", "-"))
			if a, b := exchange(t, own, text), exchange(t, ln.Addr().String(), text); a != b {
				t.Errorf("%q:\ncapgate:\n%s\nnet/http:\n%s", text, a, b)
			}
		}
	}
}

// exchange sends a text, and another request if the connection stays open. It describes all responses.
func exchange(t *testing.T, addr, text string) string {
	nc, err := net.Dial("tcp", addr)
	check.Must(t, err)
	defer func() { _ = nc.Close() }()
	check.Must(t, nc.SetDeadline(time.Now().Add(check.Patience)))
	write(nc, text)
	if strings.HasSuffix(text, "30\r\n\r\nabc") { // incomplete
		_ = nc.(*net.TCPConn).CloseWrite() // the server may have closed it
	}
	in := bufio.NewReader(nc)
	var all strings.Builder
	for range strings.Count(text, "HTTP/1.") {
		if !describe(&all, in, text) {
			return all.String()
		}
	}
	write(nc, "GET /nothing HTTP/1.1\r\nHost: a\r\n\r\n")
	_ = describe(&all, in, "GET")
	return all.String()
}

// describe reads a response, and reports whether the connection stays open.
func describe(all io.Writer, in *bufio.Reader, text string) bool {
	method, _, _ := strings.Cut(text, " ")
	resp, err := http.ReadResponse(in, &http.Request{Method: method})
	if err != nil {
		return false
	}
	if resp.Header.Get("Date") != "" && resp.Header.Get("Date") != "once" {
		resp.Header.Set("Date", "some")
	}
	body, err := io.ReadAll(resp.Body)
	_, _ = fmt.Fprintf(all, "%q, length %d, %v, close %t, %v %v, %d bytes %.200q, broken off %t\n", resp.Status,
		resp.ContentLength, resp.TransferEncoding, resp.Close, resp.Header, resp.Trailer, len(body), body, err != nil)
	return err == nil && !resp.Close
}
