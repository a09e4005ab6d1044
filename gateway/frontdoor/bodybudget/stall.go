package bodybudget

import (
	"io"
	"net/http"
	"time"
)

// StallTimeout returns a request body whose Read fails with os.ErrDeadlineExceeded after the client has sent nothing
// for the duration stall.
func StallTimeout(w http.ResponseWriter, body io.ReadCloser, stall time.Duration) io.ReadCloser {
	return &stallReader{ReadCloser: body, control: *http.NewResponseController(w), stall: stall}
}

type stallReader struct {
	io.ReadCloser
	control http.ResponseController
	stall   time.Duration
}

func (r *stallReader) Read(b []byte) (int, error) {
	_ = r.control.SetReadDeadline(time.Now().Add(r.stall))
	n, err := r.ReadCloser.Read(b)
	if err == io.EOF { // from here on only the end of the connection is read
		_ = r.control.SetReadDeadline(time.Time{})
	}
	return n, err
}
