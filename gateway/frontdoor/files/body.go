package files

import (
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/recovery"
)

// body is a request's body with limits of its size and of the length of pauses.
type body struct {
	in      io.Reader
	control *http.ResponseController
	answer  http.ResponseWriter
	request *http.Request
	left    int64 // remaining bytes allowed
	most    int64
	stall   time.Duration
	pause   *time.Timer // runs while waiting for the client

	mu      sync.Mutex
	over    bool // the body has ended, or reading has stopped
	unread  bool // the body was cut off, or is too large
	stalled bool
	cut     bool // the gateway stopped reading
}

func newBody(w http.ResponseWriter, r *http.Request, most int64, stall time.Duration) *body {
	b := &body{in: r.Body, control: http.NewResponseController(w), answer: w, request: r, left: most, most: most,
		stall: stall}
	b.pause = time.AfterFunc(stall, recovery.Func("upload", func() { b.interrupt(true) }))
	b.pause.Stop()
	_ = b.control.SetReadDeadline(time.Time{}) // of a request whose body nothing reads; from here on pause counts
	return b
}

// Read implements io.Reader. Its errors are Problems, except io.EOF.
func (b *body) Read(p []byte) (int, error) {
	if int64(len(p)) > b.left+1 {
		p = p[:b.left+1]
	}
	b.pause.Reset(b.stall)
	n, err := b.in.Read(p)
	b.pause.Stop()
	if b.left -= int64(n); b.left < 0 {
		n, err = 0, begun(tooLarge(b.most))
	}
	if err == nil {
		return n, nil
	}
	return n, b.failed(err)
}

// failed converts an error of Read.
func (b *body) failed(err error) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	refusal := (*call.Refusal)(nil)
	switch {
	case err == io.EOF:
		b.over = true
		return err
	case errors.As(err, &refusal):
	case b.stalled:
		err = stalled()
	default:
		err = broken()
	}
	b.unread = true
	return err
}

// finish ends the body before the response. If the rest of the body is unread, finish prevents net/http from reading
// it, because the client would only receive the response after sending more.
//
// Such a connection accepts no further request. net/http may have reached the body's end meanwhile and read the next
// request: the deadline in the past then cancels the contexts of all further requests.
func (b *body) finish(all bool) {
	b.pause.Stop()
	if !all || b.unread {
		b.end()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.over = true
	if b.cut && b.request.ProtoMajor == 1 {
		b.answer.Header().Set("Connection", "close")
	}
}

// end interrupts all reads, from any goroutine. The connection accepts no further request afterwards, unless the body
// had ended.
func (b *body) end() { b.interrupt(false) }

func (b *body) interrupt(stalled bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.over {
		b.over, b.stalled, b.cut = true, stalled, true
		_ = b.control.SetReadDeadline(time.Unix(1, 0)) // if unsupported, the body ends with the connection
	}
}
