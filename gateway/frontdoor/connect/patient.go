package connect

import (
	"net/http"
	"time"
)

// slice is how much is written before the client's time begins anew, in bytes.
const slice = 64 << 10

// patientWriter bounds the wait for a slow reader. Otherwise a client that reads nothing would hold a call's
// goroutine and memory as long as its connection lives.
type patientWriter struct {
	http.ResponseWriter
	control *http.ResponseController
	stall   time.Duration
}

// Write implements io.Writer.
func (w *patientWriter) Write(p []byte) (n int, err error) {
	for err == nil && n < len(p) {
		var m int
		w.limit()
		m, err = w.ResponseWriter.Write(p[n:min(n+slice, len(p))])
		n += m
	}
	return n, err
}

// Flush implements http.Flusher.
func (w *patientWriter) Flush() {
	w.limit()
	_ = w.control.Flush() // the next write detects a closed connection
}

// Unwrap is for http.ResponseController.
func (w *patientWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *patientWriter) limit() { _ = w.control.SetWriteDeadline(time.Now().Add(w.stall)) }

// end makes the connection ready for another request.
func (w *patientWriter) end() { _ = w.control.SetWriteDeadline(time.Time{}) }
