package response

import "net/http"

// Replaced withholds the response of a library, which the caller replaces.
type Replaced struct {
	http.ResponseWriter
	// Withhold reports whether a response with a status is withheld. It is called before the response is written.
	Withhold func(status int) bool
	Status   int // of the response that was withheld; 0: none was
}

// WriteHeader implements http.ResponseWriter.
func (w *Replaced) WriteHeader(status int) {
	if w.Withhold(status) {
		w.Status = status
		return
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write implements io.Writer.
func (w *Replaced) Write(text []byte) (int, error) {
	if w.Status != 0 {
		return len(text), nil
	}
	return w.ResponseWriter.Write(text)
}

// Unwrap is for http.ResponseController.
func (w *Replaced) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Flush implements http.Flusher.
func (w *Replaced) Flush() {
	if w.Status == 0 {
		_ = http.NewResponseController(w.ResponseWriter).Flush() // an error means that it does not flush
	}
}
