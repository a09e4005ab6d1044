package bodybudget

import (
	"context"
	"io"
	"net/http"
	"time"
)

// StallTimeout returns a request body whose Read fails with os.ErrDeadlineExceeded after the client has sent nothing
// for the duration stall.
func StallTimeout(w http.ResponseWriter, body io.ReadCloser, stall time.Duration) io.ReadCloser {
	return &stallReader{ReadCloser: body, control: *http.NewResponseController(w), stall: stall}
}

// StallTimeoutOf is StallTimeout for a call with the deadline of ctx, if any, at which Read fails too.
func StallTimeoutOf(ctx context.Context, w http.ResponseWriter, body io.ReadCloser, stall time.Duration) io.ReadCloser {
	r := &stallReader{ReadCloser: body, control: *http.NewResponseController(w), stall: stall}
	r.deadline, _ = ctx.Deadline()
	return r
}

type stallReader struct {
	io.ReadCloser
	control  http.ResponseController
	stall    time.Duration
	deadline time.Time // zero means none
}

func (r *stallReader) Read(b []byte) (int, error) {
	by := time.Now().Add(r.stall)
	if !r.deadline.IsZero() && r.deadline.Before(by) {
		by = r.deadline
	}
	_ = r.control.SetReadDeadline(by)
	n, err := r.ReadCloser.Read(b)
	if err == io.EOF { // from here on only the end of the connection is read
		_ = r.control.SetReadDeadline(time.Time{})
	}
	return n, err
}
