package bodybudget

import (
	"net/http"
	"time"
)

// slice is the number of bytes written before the client's time restarts.
const slice = 64 << 10

// Writer is a response whose writes fail if the client reads nothing for too long. Otherwise such a client would hold
// a call's goroutine and memory as long as its connection lives. It is not a response.Writer, because each write has a
// deadline, and calls must not pay for hooks.
type Writer struct {
	http.ResponseWriter
	control http.ResponseController
	stall   time.Duration
	first   time.Time // earliest deadline; zero before the first write
	lasts   bool      // the response outlives its handler
}

// WriteTimeout returns a response whose Write fails after the client has read nothing for the duration stall. End must
// be called after the response.
func WriteTimeout(w http.ResponseWriter, stall time.Duration) *Writer {
	return &Writer{ResponseWriter: w, control: *http.NewResponseController(w), stall: stall}
}

// Write implements io.Writer.
func (w *Writer) Write(p []byte) (n int, err error) {
	for err == nil && n < len(p) {
		var m int
		w.limit()
		m, err = w.ResponseWriter.Write(p[n:min(n+slice, len(p))])
		n += m
	}
	return n, err
}

// Flush implements http.Flusher. The next write detects a closed connection.
func (w *Writer) Flush() { _ = w.FlushError() }

// FlushError implements the interface of http.ResponseController.
func (w *Writer) FlushError() error {
	w.limit()
	return w.control.Flush()
}

// Unwrap implements the interface of http.ResponseController.
func (w *Writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// limit sets the deadline of a write. Before the first, net/http may read the rest of the body until its own deadline.
func (w *Writer) limit() {
	by := time.Now().Add(w.stall)
	if w.first.IsZero() {
		w.first = by.Add(w.stall)
	}
	if by.Before(w.first) {
		by = w.first
	}
	_ = w.control.SetWriteDeadline(by)
}

// End resets the connection for another request, unless the response outlives its handler.
func (w *Writer) End() {
	if !w.lasts {
		w.Reset()
	}
}

// Outlive makes End do nothing. Reset must be called at the end of the response.
func (w *Writer) Outlive() { w.lasts = true }

// Reset resets the connection for another request.
func (w *Writer) Reset() { _ = w.control.SetWriteDeadline(time.Time{}) }
