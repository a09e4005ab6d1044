// Package response wraps responses over HTTP.
package response

import "net/http"

// Writer is a response whose handler may be observed and changed: each of its methods can begin the response.
type Writer struct {
	http.ResponseWriter
	Begin    func() // is called once, before the header is sent; may be nil
	Flushing func() // is called before each flush; may be nil
	begun    bool
}

// Begun reports whether the response has begun.
func (w *Writer) Begun() bool { return w.begun }

// Start begins the response, unless it has begun.
func (w *Writer) Start() {
	if w.begun {
		return
	}
	if w.begun = true; w.Begin != nil {
		w.Begin()
	}
}

// WriteHeader implements http.ResponseWriter. An informational response does not begin the response.
func (w *Writer) WriteHeader(status int) {
	if status >= http.StatusOK || status == http.StatusSwitchingProtocols {
		w.Start()
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write implements io.Writer.
func (w *Writer) Write(p []byte) (int, error) {
	w.Start()
	return w.ResponseWriter.Write(p)
}

// Flush implements http.Flusher.
func (w *Writer) Flush() { _ = w.FlushError() }

// FlushError is for http.ResponseController.
func (w *Writer) FlushError() error {
	w.Start()
	if w.Flushing != nil {
		w.Flushing()
	}
	return http.NewResponseController(w.ResponseWriter).Flush()
}

// Unwrap is for http.ResponseController.
func (w *Writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }
