// Package handlertest has http.Handlers that rely on the behavior of net/http's server. Other servers must respond to
// their requests in the same way.
package handlertest

import (
	"io"
	"maps"
	"net/http"
)

// Peculiar returns handlers by what they do, with more of them.
func Peculiar(more map[string]http.HandlerFunc) map[string]http.HandlerFunc {
	all := map[string]http.HandlerFunc{
		"nothing":  func(http.ResponseWriter, *http.Request) {},
		"a status": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) },
		"two":      func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(201); w.WriteHeader(202) },
		"in pieces": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write(nil)
			_, _ = w.Write([]byte("{}"))
		},
		"flushed at once": func(w http.ResponseWriter, _ *http.Request) { _ = http.NewResponseController(w).Flush() },
		"typed": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "a/b")
			write(w, "<html>")
		},
		"not typed": func(w http.ResponseWriter, _ *http.Request) {
			w.Header()["Content-Type"] = nil
			write(w, "<html>")
		},
		"encoded": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "br")
			write(w, "<html>")
		},
		"dated": func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Date", "once"); write(w, "x") },
		"sized": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "3")
			write(w, "abc")
		},
		"undersized": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "30")
			write(w, "abc")
		},
		"hints": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Link", "</a.css>")
			w.WriteHeader(http.StatusEarlyHints)
			w.WriteHeader(http.StatusProcessing)
			write(w, "x")
		},
		"trailers alone": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set(http.TrailerPrefix+"X-One", "1")
		},
		"a bad status": func(w http.ResponseWriter, _ *http.Request) {
			defer func() {
				if recover() == nil {
					panic("no panic")
				}
				write(w, "x")
			}()
			w.WriteHeader(1000)
		},
		"abort": func(w http.ResponseWriter, _ *http.Request) { write(w, "x"); panic(http.ErrAbortHandler) },
		"abort later": func(w http.ResponseWriter, _ *http.Request) {
			write(w, "x")
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		},
	}
	maps.Copy(all, more)
	return all
}

// write writes a part of a response. An error means that the client has disconnected.
func write(w http.ResponseWriter, text string) { _, _ = io.WriteString(w, text) }
